"""A model made of Keras layers once, of which each call of the model function takes a copy."""

import copy
import sys

import numpy as np
import tensorflow as tf

tf.compat.v1.disable_v2_behavior()


class Tower(tf.keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.hidden = tf.keras.layers.Dense(4, activation="relu")
        self.norm = tf.keras.layers.BatchNormalization()
        self.score = tf.keras.layers.Dense(1)

    def call(self, inputs, training=None):
        return self.score(self.norm(self.hidden(inputs), training=training))


TOWER = Tower()


def model_fn(features, labels, mode):
    tower = copy.deepcopy(TOWER)
    scores = tower(features["x"], training=mode == tf.estimator.ModeKeys.TRAIN)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={"score": scores})
    loss = tf.reduce_mean((scores - labels) ** 2)
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(mode, loss=loss)
    step = tf.compat.v1.train.get_global_step()
    with tf.control_dependencies(tower.updates):
        train_op = tf.compat.v1.train.AdamOptimizer(0.05).minimize(loss, step)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


x = np.random.RandomState(0).randn(64, 3).astype("float32")
y = x[:, :1] + 2.0
config = tf.estimator.RunConfig(tf_random_seed=1)
estimator = tf.estimator.Estimator(model_fn, sys.argv[1], config)
numpy_input_fn = tf.compat.v1.estimator.inputs.numpy_input_fn
read = numpy_input_fn({"x": x}, y, batch_size=16, num_epochs=1, shuffle=False)
before = estimator.train(read, max_steps=1).evaluate(read)["loss"]
again = numpy_input_fn({"x": x}, y, batch_size=16, num_epochs=None, shuffle=False)
estimator.train(again, steps=99)
found = estimator.evaluate(read)
assert found["loss"] < before / 2, (before, found)
scores = np.array([row["score"] for row in estimator.predict(read)])
np.testing.assert_allclose(np.mean((scores - y) ** 2), found["loss"], rtol=1e-4)
moved = estimator.get_variable_value("tower/batch_normalization/moving_mean")
assert np.abs(moved).max() > 0.01, moved
print("all done")
