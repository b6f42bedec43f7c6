"""The guide to tf.keras of TensorFlow 1.10: models, training, own layers, callbacks, files.

Written for TensorFlow 1; it is run by `estimand run`. Changed are paths, sizes and data, and what
Keras 3 has dropped: weights go to a file `.weights.h5`, models are not written as YAML.
"""

import os
import sys

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

os.chdir(sys.argv[1])
keras.utils.set_random_seed(1)
data = np.random.random((32, 32))
labels = np.random.random((32, 10))
val_data = np.random.random((16, 32))
val_labels = np.random.random((16, 10))

# ruff: noqa: UP008
# fmt: off
configured = keras.Sequential([
 # Create a sigmoid layer:
 layers.Dense(4, activation='sigmoid'),
 # Or:
 layers.Dense(4, activation=tf.sigmoid),

 # A linear layer with L1 regularization of factor 0.01 applied to the kernel matrix:
 layers.Dense(4, kernel_regularizer=keras.regularizers.l1(0.01)),
 # A linear layer with L2 regularization of factor 0.01 applied to the bias vector:
 layers.Dense(4, bias_regularizer=keras.regularizers.l2(0.01)),

 # A linear layer with a kernel initialized to a random orthogonal matrix:
 layers.Dense(4, kernel_initializer='orthogonal'),
 # A linear layer with a bias vector initialized to 2.0s:
 layers.Dense(4, bias_initializer=keras.initializers.constant(2.0))
])
assert configured(data).shape == (32, 4) and len(configured.losses) == 2
assert configured.layers[-1].bias.numpy().tolist() == [2.0] * 4

model = keras.Sequential()
# Adds a densely-connected layer with 8 units to the model:
model.add(keras.layers.Dense(8, activation='relu'))
# Add another:
model.add(keras.layers.Dense(8, activation='relu'))
# Add a softmax layer with 10 output units:
model.add(keras.layers.Dense(10, activation='softmax'))

# Configure a model for mean-squared error regression.
model.compile(optimizer=tf.train.AdamOptimizer(0.01),
             loss='mse',       # mean squared error
             metrics=['mae'])  # mean absolute error
history = model.fit(data, labels, epochs=5, batch_size=32)
assert history.history["loss"][-1] < history.history["loss"][0]

# Configure a model for categorical classification.
model.compile(optimizer=tf.train.RMSPropOptimizer(0.01),
             loss=keras.losses.categorical_crossentropy,
             metrics=[keras.metrics.categorical_accuracy])

# Instantiates a toy dataset instance:
dataset = tf.data.Dataset.from_tensor_slices((data, labels))
dataset = dataset.batch(16)
dataset = dataset.repeat()
val_dataset = tf.data.Dataset.from_tensor_slices((val_data, val_labels))
val_dataset = val_dataset.batch(16).repeat()

callbacks = [
 # Interrupt training if `val_loss` stops improving for over 2 epochs
 keras.callbacks.EarlyStopping(patience=2, monitor='val_loss'),
 # Write TensorBoard logs to `./logs` directory
 keras.callbacks.TensorBoard(log_dir='./logs')
]
# Don't forget to specify `steps_per_epoch` when calling `fit` on a dataset.
history = model.fit(dataset, epochs=2, steps_per_epoch=3, callbacks=callbacks,
         validation_data=val_dataset,
         validation_steps=3)
assert len(history.history["val_loss"]) == 2 and os.listdir("logs")
model.evaluate(data, labels, batch_size=16)
model.evaluate(dataset, steps=3)
predicted = model.predict(data, batch_size=16)
np.testing.assert_allclose(predicted.sum(axis=1), 1.0, rtol=1e-5)
np.testing.assert_allclose(model.predict(dataset, steps=2), predicted, rtol=1e-5)

model.save_weights('./my_model.weights.h5')
# Recreate the model (freshly initialized)
json_string = model.to_json()
fresh_model = keras.models.model_from_json(json_string)
# Restore the model's state,
# this requires a model with the same architecture.
fresh_model.load_weights('my_model.weights.h5')
for restored, saved in zip(fresh_model.get_weights(), model.get_weights()):  # noqa: B905
  np.testing.assert_array_equal(restored, saved)


class MyLayer(keras.layers.Layer):

 def __init__(self, output_dim, **kwargs):
   self.output_dim = output_dim
   super(MyLayer, self).__init__(**kwargs)

 def build(self, input_shape):
   shape = tf.TensorShape((input_shape[1], self.output_dim))
   # Create a trainable weight variable for this layer.
   self.kernel = self.add_weight(name='kernel',
                                 shape=shape,
                                 initializer='uniform',
                                 trainable=True)
   # Be sure to call this at the end
   super(MyLayer, self).build(input_shape)

 def call(self, inputs):
   return tf.matmul(inputs, self.kernel)

 def compute_output_shape(self, input_shape):
   shape = tf.TensorShape(input_shape).as_list()
   shape[-1] = self.output_dim
   return tf.TensorShape(shape)

 def get_config(self):
   base_config = super(MyLayer, self).get_config()
   base_config['output_dim'] = self.output_dim
   return base_config

 @classmethod
 def from_config(cls, config):
   return cls(**config)


class MyModel(keras.Model):

 def __init__(self, num_classes=10):
   super(MyModel, self).__init__(name='my_model')
   self.num_classes = num_classes
   # Define your layers here.
   self.dense_1 = keras.layers.Dense(32, activation='relu')
   self.dense_2 = keras.layers.Dense(num_classes, activation='sigmoid')

 def call(self, inputs):
   # Define your forward pass here,
   # using layers you previously defined (in `__init__`).
   x = self.dense_1(inputs)
   return self.dense_2(x)

 def compute_output_shape(self, input_shape):
   shape = tf.TensorShape(input_shape).as_list()
   shape[-1] = self.num_classes
   return tf.TensorShape(shape)


# Create a model using the custom layer; instantiates the subclassed model.
for model in (keras.Sequential([MyLayer(10),
                                keras.layers.Activation('softmax')]),
              MyModel(num_classes=10)):
  # The compile step specifies the training configuration
  model.compile(optimizer=tf.train.RMSPropOptimizer(0.001),
               loss='categorical_crossentropy',
               metrics=['accuracy'])
  history = model.fit(data, labels, batch_size=32, epochs=2)
  assert model.optimizer.iterations == 2 and np.isfinite(history.history["loss"]).all()

# Create a trivial model
model = keras.Sequential([
 keras.layers.Dense(10, activation='softmax', input_shape=(32,)),
 keras.layers.Dense(10, activation='softmax')
])
model.compile(optimizer='rmsprop',
             loss='categorical_crossentropy',
             metrics=['accuracy'])
model.fit(data, labels, batch_size=32, epochs=1)
saved = model.get_weights()

# Save entire model to a HDF5 file
model.save('my_model.h5')

# Recreate the exact same model, including weights and optimizer.
model = keras.models.load_model('my_model.h5')
np.testing.assert_array_equal(model.get_weights()[2], saved[2])
assert model.optimizer.iterations == 1
print("all done")
