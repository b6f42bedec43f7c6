"""A program for tf.keras of version 2 that is run in every role of a cluster."""

import sys

import numpy as np
import tensorflow as tf

import estimand as est

x = np.random.RandomState(0).rand(64, 3).astype("float32")


def input_fn():
    rows = tf.data.Dataset.from_tensor_slices(({"x": x}, x.sum(1, keepdims=True)))
    return rows.repeat().batch(8)


def model_fn(features, labels, mode):
    net = tf.keras.Sequential(
        [tf.keras.layers.BatchNormalization(), tf.keras.layers.Dense(1, name="out")]
    )
    loss = tf.reduce_mean((net(features["x"], training=mode == "train") - labels) ** 2)
    optimizer = tf.keras.optimizers.Adam(0.01)
    train_op = est.minimize(optimizer, loss, net.trainable_variables) if mode == "train" else None
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def main(kind, model_dir):
    strategy = tf.distribute.MultiWorkerMirroredStrategy() if kind == "workers" else None
    estimator = est.Estimator(model_fn, model_dir, est.RunConfig(train_distribute=strategy))
    est.train_and_evaluate(
        estimator,
        est.TrainSpec(input_fn, max_steps=12),
        est.EvalSpec(input_fn, steps=2, start_delay_secs=0, throttle_secs=0),
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
