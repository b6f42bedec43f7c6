"""Large arrays reach the input function through placeholders, which a hook feeds."""

import sys

import numpy as np
import tensorflow as tf

x = np.arange(40, dtype=np.float32).reshape(20, 2) / 40
y = x.sum(axis=1, keepdims=True)


class IteratorInitializerHook(tf.train.SessionRunHook):
    def __init__(self):
        self.initialize = None

    def after_create_session(self, session, coord):
        self.initialize(session)


def inputs(repeat):
    hook = IteratorInitializerHook()

    def input_fn():
        images = tf.placeholder(x.dtype, [None, 2])
        labels = tf.placeholder(y.dtype, y.shape)
        dataset = tf.data.Dataset.from_tensor_slices((images, labels))
        dataset = (dataset.shuffle(20).repeat() if repeat else dataset).batch(5)
        iterator = dataset.make_initializable_iterator()
        hook.initialize = lambda session: session.run(
            iterator.initializer, feed_dict={images: x, labels: y}
        )
        image, label = iterator.get_next()
        return {"image": image}, label

    return input_fn, hook


def model_fn(features, labels, mode):
    flat = tf.contrib.layers.flatten(tf.reshape(features["image"], [-1, 2, 1]))
    outputs = tf.layers.dense(flat, 1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions=outputs)
    loss = tf.losses.mean_squared_error(labels, outputs)
    train_op = tf.train.AdamOptimizer(0.1).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


estimator = tf.estimator.Estimator(model_fn, sys.argv[1])
for _ in range(2):
    input_fn, hook = inputs(repeat=True)
    estimator.train(input_fn, hooks=[hook], steps=50)
input_fn, hook = inputs(repeat=False)
assert estimator.evaluate(input_fn, hooks=[hook])["loss"] < 0.01
input_fn, hook = inputs(repeat=False)
assert len(list(estimator.predict(input_fn, hooks=[hook]))) == 20
try:
    estimator.evaluate(inputs(repeat=False)[0])
except tf.errors.InvalidArgumentError as error:
    assert "nobody feeds it" in str(error), error
print("all done")
