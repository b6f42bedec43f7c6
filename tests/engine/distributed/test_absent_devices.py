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

{before}
config = tf.estimator.RunConfig(sys.argv[1], train_distribute={made}, session_config={session})
estimator = tf.estimator.Estimator(model_fn, config=config)
estimator.train(input_fn, max_steps=5)
print("step", estimator.evaluate(input_fn)["global_step"])
"""


MIRRORED = "tf.distribute.MirroredStrategy(['device:GPU:0'])"


def run(
    directory: Path, made: str, session: str = "None", before: str = ""
) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.replace("{made}", made)
    program = program.replace("{session}", session).replace("{before}", before)
    return forked.run(["-c", program, directory / "model"])


@pytest.mark.parametrize("made", ["tf.distribute.OneDeviceStrategy('device:GPU:0')", MIRRORED])
def test_one_replica_runs_on_a_device_that_is_there(made: str, tmp_path: Path) -> None:
    ended = run(tmp_path, made, "v1.ConfigProto(allow_soft_placement=True)")
    assert ended.returncode == 0, ended.stderr
    assert "step 5" in ended.stdout


def test_a_program_of_graphs_need_not_ask_for_soft_placement(tmp_path: Path) -> None:
    ended = run(tmp_path, MIRRORED, before="v1.disable_eager_execution()")
    assert ended.returncode == 0, ended.stderr
    assert "step 5" in ended.stdout


def test_several_replicas_are_refused(tmp_path: Path) -> None:
    ended = run(tmp_path, "tf.distribute.MirroredStrategy(['device:GPU:0', 'device:GPU:1'])")
    assert ended.returncode != 0
    assert "this process has no device:GPU:0, device:GPU:1. Name devices out of" in ended.stderr
