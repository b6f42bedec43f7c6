"""Strategies that name GPUs, in a process that has none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests import forked

PROGRAM = """
import sys
import tensorflow as tf
import estimand
estimand.install()
v1 = tf.compat.v1

def input_fn():
    x = tf.constant([[1.0], [2.0], [3.0], [4.0]])
    return tf.data.Dataset.from_tensors((dict(x=x), 3 * x)).repeat(10)

def model_fn(features, labels, mode):
    predictions = v1.layers.dense(features["x"], 1)
    loss = v1.losses.mean_squared_error(labels, predictions)
    train_op = v1.train.GradientDescentOptimizer(0.05).minimize(loss, v1.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, predictions, loss, train_op)

strategy = {made}
session_config = v1.ConfigProto(allow_soft_placement=True)
config = tf.estimator.RunConfig(
    sys.argv[1], train_distribute=strategy, session_config=session_config)
estimator = tf.estimator.Estimator(model_fn, config=config)
estimator.train(input_fn, max_steps=5)
print("step", estimator.evaluate(input_fn)["global_step"])
"""


def run(made: str, directory: Path) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.replace("{made}", made)
    return forked.run(["-c", program, directory / "model"])


@pytest.mark.parametrize(
    "made",
    [
        "tf.distribute.OneDeviceStrategy('device:GPU:0')",
        "tf.distribute.MirroredStrategy(['device:GPU:0'])",
    ],
)
def test_one_replica_runs_on_a_device_that_is_there(made: str, tmp_path: Path) -> None:
    ended = run(made, tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert "step 5" in ended.stdout


def test_several_replicas_are_refused(tmp_path: Path) -> None:
    ended = run("tf.distribute.MirroredStrategy(['device:GPU:0', 'device:GPU:1'])", tmp_path)
    assert ended.returncode != 0
    assert "this process has no device:GPU:0, device:GPU:1. Name devices out of" in ended.stderr
