"""State that is no variable of the model: a call that was interrupted goes on with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est

v1 = tf.compat.v1
ROWS = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")


def input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((ROWS, ROWS.sum(axis=1))).repeat().batch(8)


def rate_by_a_running_mean(features, labels, mode):
    """The learning rate depends on a metric, whose variables are local."""
    w = v1.get_variable("w", [3], initializer=v1.zeros_initializer())
    error = tf.reduce_mean((tf.linalg.matvec(features, w) - labels) ** 2 + 0.1)
    _, update = v1.metrics.mean(error)
    optimizer = v1.train.GradientDescentOptimizer(0.01 / (1.0 + update))
    train_op = optimizer.minimize(error, v1.train.get_global_step())
    return est.EstimatorSpec(mode, loss=error, train_op=train_op)


def rate_by_a_count(features, labels, mode):
    """The learning rate depends on a local variable of its own."""
    count = v1.get_local_variable("count", [], initializer=v1.zeros_initializer())
    w = v1.get_variable("w", [3], initializer=v1.zeros_initializer())
    loss = tf.reduce_mean((tf.linalg.matvec(features, w) - labels) ** 2)
    with tf.control_dependencies([v1.assign_add(count, 1.0)]):
        optimizer = v1.train.GradientDescentOptimizer(0.01 / (1.0 + count.read_value()))
    train_op = optimizer.minimize(loss, v1.train.get_global_step())
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def counts_in_a_dense_table(features, labels, mode):
    """A step weighs its rows by how often it has seen them."""
    table = tf.lookup.experimental.DenseHashTable(
        tf.int64, tf.float32, 0.0, empty_key=-1, deleted_key=-2
    )
    ids = tf.cast(features[:, 0] > 0, tf.int64)
    seen = table.lookup(ids)
    w = v1.get_variable("w", [3], initializer=v1.zeros_initializer())
    loss = tf.reduce_mean((tf.linalg.matvec(features, w) - labels) ** 2 / (1.0 + seen))
    with tf.control_dependencies([loss]):
        insert = table.insert(ids, seen + 1.0)
    with tf.control_dependencies([insert]):
        step = v1.train.get_global_step()
        train_op = v1.train.GradientDescentOptimizer(0.01).minimize(loss, step)
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


class Crash(est.SessionRunHook):
    def __init__(self, at: int) -> None:
        self._at, self._steps = at, 0

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self._steps += 1
        if self._steps == self._at:
            raise RuntimeError("crash")


@pytest.mark.parametrize(
    ("model_fn", "eagerly", "step"),
    [
        (rate_by_a_running_mean, False, 25),
        (rate_by_a_running_mean, True, 25),
        (rate_by_a_count, True, 25),
        (rate_by_a_count, True, 5),  # the checkpoint of the start
        (counts_in_a_dense_table, False, 25),
    ],
)
def test_it_is_there_after_a_crash(tmp_path: Path, model_fn: Any, eagerly: bool, step: int) -> None:
    def trained(model_dir: Path, *hooks: Any) -> Any:
        config = est.RunConfig(
            tf_random_seed=1, save_checkpoints_steps=10, run_eagerly=eagerly, progress=False
        )
        estimator = est.Estimator(model_fn, model_dir, config)
        estimator.train(input_fn, max_steps=40, hooks=hooks)
        return estimator.get_variable_value("w")

    with pytest.raises(RuntimeError, match="crash"):
        trained(tmp_path / "crashed", Crash(step))
    resumed, whole = trained(tmp_path / "crashed"), trained(tmp_path / "whole")
    np.testing.assert_array_equal(resumed, whole)
    assert np.abs(whole).min() > 0.01  # it has learnt something


def test_new_call_starts_local_variables_anew(tmp_path: Path) -> None:
    """As tf.estimator does: the mean is one of a call."""
    values: list[float] = []

    class Look(est.SessionRunHook):
        def before_run(self, run_context: Any) -> Any:
            return est.SessionRunArgs("mean_1/count:0")

        def after_run(self, run_context: Any, run_values: Any) -> None:
            values.append(float(run_values.results))

    config = est.RunConfig(tf_random_seed=1, progress=False)
    for steps in (3, 6):
        estimator = est.Estimator(rate_by_a_running_mean, tmp_path, config)
        estimator.train(input_fn, max_steps=steps, hooks=[Look()])
    assert values == [0.0, 1.0, 2.0] * 2
