"""A strategy that was made where nothing is executed eagerly trains as any other does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import forked

PROGRAM = """
import sys
import tensorflow as tf
import estimand
estimand.install()
v1 = tf.compat.v1
{made}

def input_fn():
    x = tf.constant([[1.0], [2.0], [3.0], [4.0]])
    return tf.data.Dataset.from_tensors((dict(x=x), 3 * x)).repeat()

def model_fn(features, labels, mode):
    normal = v1.layers.batch_normalization(features["x"], training=True)
    loss = v1.losses.mean_squared_error(labels, v1.layers.dense(normal, 1))
    with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
        train_op = v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

config = tf.estimator.RunConfig(sys.argv[1], train_distribute=strategy)
estimator = tf.estimator.Estimator(model_fn, config=config).train(input_fn, steps=5)
print("moving mean", estimator.get_variable_value("batch_normalization/moving_mean"))
"""
MADE = {
    "in a graph": (
        "with tf.Graph().as_default():\n    strategy = tf.distribute.MultiWorkerMirroredStrategy()"
    ),
    "by a program of TensorFlow 1": (
        "v1.disable_eager_execution()\nstrategy = tf.distribute.MultiWorkerMirroredStrategy()"
    ),
}


@pytest.mark.parametrize("made", MADE)
def test_it_trains(made: str, tmp_path: Path) -> None:
    program = PROGRAM.replace("{made}", MADE[made])
    ended = forked.run(["-c", program, tmp_path / "model"])
    assert ended.returncode == 0, ended.stderr
    # Of 2.5 in every batch: 2.5 * (1 - 0.99 ** 5).
    assert "moving mean [0.1225" in ended.stdout
