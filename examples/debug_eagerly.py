"""Stepping through a model function: print, breakpoints and exceptions at your own line.

python examples/debug_eagerly.py
"""

from __future__ import annotations

import tempfile

from estimand.cli.quiet import quiet_start

with quiet_start():
    import keras
    import numpy as np
    import tensorflow as tf

import estimand as est

X = np.linspace(-1, 1, 64, dtype="float32")[:, None]


def input_fn():
    return tf.data.Dataset.from_tensor_slices((X, 2 * X - 1)).batch(16)


def model_fn(features, labels, mode):
    prediction = keras.layers.Dense(1)(features)
    loss = tf.reduce_mean(tf.square(prediction - labels))
    # Values, not symbols: set a breakpoint() here, or print.
    print(f"  loss {loss.numpy():.4f}   first prediction {prediction.numpy()[0, 0]: .3f}")
    train_op = est.minimize(keras.optimizers.SGD(0.3), loss)
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


if __name__ == "__main__":
    config = est.RunConfig(model_dir=tempfile.mkdtemp(), run_eagerly=True, tf_random_seed=1)
    est.Estimator(model_fn, config=config).train(input_fn)
    print("Remove run_eagerly and the same model function is traced once and runs at full speed.")
