"""Keras models as estimators, as users published them, for Keras 3.

Changed are sizes, paths and data, and what Keras 3 refuses: `lr=` is `learning_rate=`.
"""

import os

import numpy as np

from tests.legacy.v1_view import tf

_PATCH_SIZE = 12
_NUM_CLASSES = 2


def focal_loss(target_tensor, prediction_tensor):
    prediction_tensor = tf.clip_by_value(prediction_tensor, 1e-6, 1.0)
    target_tensor = tf.cast(target_tensor, prediction_tensor.dtype)
    focal = target_tensor * (1.0 - prediction_tensor) ** 2 * -tf.log(prediction_tensor)
    return tf.reduce_sum(focal, axis=-1)


def small_base(keras, input_shape):
    """In the place of `keras.applications.Xception`: as there, batch normalization after all."""
    layers = keras.layers
    inputs = keras.Input(shape=input_shape)
    x = layers.Conv2D(4, 3, strides=2, use_bias=False, name="block1_conv1")(inputs)
    x = layers.BatchNormalization(name="block1_conv1_bn")(x)
    x = layers.Activation("relu")(x)
    x = layers.SeparableConv2D(8, 3, use_bias=False, name="block2_sepconv1")(x)
    x = layers.BatchNormalization(name="block2_sepconv1_bn")(x)
    x = layers.GlobalMaxPooling2D()(x)
    outputs = layers.Dense(_NUM_CLASSES, activation="softmax", name="predictions")(x)
    return keras.models.Model(inputs, outputs)


def model_fn(model_dir=".", input_shape=(_PATCH_SIZE, _PATCH_SIZE, 3)):
    keras = tf.keras
    with keras.backend.name_scope("model"):
        base_model = small_base(keras, input_shape)
        model_input = keras.Input(shape=input_shape, dtype=tf.float32, name="input_1")
        model_output = base_model(model_input)
        model = keras.models.Model(inputs=model_input, outputs=model_output)
        optimizer = keras.optimizers.RMSprop(learning_rate=2e-3)
        model.compile(optimizer=optimizer, loss=focal_loss, metrics=["accuracy"])
        if not os.path.exists(model_dir):
            os.makedirs(model_dir)
        # define training config
        run_config = tf.estimator.RunConfig(save_checkpoints_steps=2000, keep_checkpoint_max=5)
        # convert keras model to estimator model
        est_model = keras.estimator.model_to_estimator(
            model, model_dir=model_dir, config=run_config
        )
        return est_model


def two_layers():
    keras = tf.keras
    layers = keras.layers
    model = keras.Sequential(
        [layers.Dense(10, activation="softmax"), layers.Dense(10, activation="softmax")]
    )
    model.compile(
        optimizer=tf.train.RMSPropOptimizer(0.001),
        loss="categorical_crossentropy",
        metrics=["accuracy"],
    )
    return keras.estimator.model_to_estimator(model)


def functional(data, labels):
    keras = tf.keras
    inputs = keras.Input(shape=(32,))  # Returns a placeholder tensor

    # A layer instance is callable on a tensor, and returns a tensor.
    x = keras.layers.Dense(8, activation="relu")(inputs)
    x = keras.layers.Dense(8, activation="relu")(x)
    predictions = keras.layers.Dense(10, activation="softmax")(x)

    # Instantiate the model given inputs and outputs.
    model = keras.Model(inputs=inputs, outputs=predictions)

    # The compile step specifies the training configuration.
    model.compile(
        optimizer=tf.train.RMSPropOptimizer(0.001),
        loss="categorical_crossentropy",
        metrics=["accuracy"],
    )

    # Trains for 2 epochs
    model.fit(data, labels, batch_size=32, epochs=2)
    return model


def input_fn():
    x = np.random.random((1024, 10))
    y = np.random.randint(2, size=(1024, 1))
    x = tf.cast(x, tf.float32)
    dataset = tf.data.Dataset.from_tensor_slices((x, y))
    dataset = dataset.repeat(10)
    dataset = dataset.batch(32)
    return dataset


def on_several_devices(model_dir):
    keras = tf.keras
    model = keras.Sequential()
    model.add(keras.layers.Dense(16, activation="relu", input_shape=(10,)))
    model.add(keras.layers.Dense(1, activation="sigmoid"))

    optimizer = tf.train.GradientDescentOptimizer(0.2)

    model.compile(loss="binary_crossentropy", optimizer=optimizer)
    model.summary()

    strategy = tf.contrib.distribute.MirroredStrategy()
    config = tf.estimator.RunConfig(train_distribute=strategy)
    keras_estimator = keras.estimator.model_to_estimator(
        keras_model=model, config=config, model_dir=model_dir
    )
    keras_estimator.train(input_fn=input_fn, steps=10)
    return keras_estimator


def read_by_name(train_data, train_labels, model_dir):
    # Instantiate a Keras model, of a few layers where the guide has InceptionV3.
    layers = tf.keras.layers
    keras_model = tf.keras.Sequential(
        [
            layers.Input(shape=(8, 8, 3)),
            layers.Conv2D(4, 3),
            layers.GlobalAveragePooling2D(),
            layers.Dense(2, activation="softmax"),
        ]
    )
    # Compile model with the optimizer, loss, and metrics you'd like to train with.
    keras_model.compile(
        optimizer=tf.keras.optimizers.SGD(learning_rate=0.0001, momentum=0.9),
        loss="categorical_crossentropy",
        metrics=["accuracy"],
    )
    # Create an Estimator from the compiled Keras model. Note the initial model
    # state of the keras model is preserved in the created Estimator.
    estimator = tf.keras.estimator.model_to_estimator(keras_model=keras_model, model_dir=model_dir)
    train_input_fn = tf.estimator.inputs.numpy_input_fn(
        x={"input_1": train_data}, y=train_labels, num_epochs=1, shuffle=False
    )
    # To train, we call Estimator's train function:
    estimator.train(input_fn=train_input_fn, steps=2000)
    return estimator
