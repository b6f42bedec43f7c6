"""Variables that tf.estimator had in one part, asked for as such."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.compat.v1 import estimator as core

v1 = tf.compat.v1
WEIGHTS = "linear/linear_model/x/weights"
X = np.array([[1.0, 1.0], [0.5, 1.5]], np.float32)


def read() -> Any:
    return tf.data.Dataset.from_tensors(({"x": X}, np.array([[8.0], [1.0]], np.float32))).repeat()


def regressor(model_dir: Path, rate: float = 0.0) -> Any:
    columns = [tf.feature_column.numeric_column("x", [2])]
    optimizer = v1.train.GradientDescentOptimizer(rate)
    return core.LinearRegressor(columns, str(model_dir), optimizer=optimizer)


class Look(est.SessionRunHook):
    def __init__(self, name: str) -> None:
        self.name: Any = name
        self.seen: list[Any] = []

    def before_run(self, run_context: Any) -> Any:
        return est.SessionRunArgs(self.name)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.seen.append(run_values.results)


def test_hooks_ask_for_the_part(tmp_path: Path) -> None:
    look = Look(f"{WEIGHTS}/part_0:0")
    model = regressor(tmp_path, 0.1).train(read, hooks=[look], steps=2)
    np.testing.assert_allclose(look.seen[0], np.zeros([2, 1]))
    # The sum over the batch: w += rate * 2 * x^T (y - 0), and so does the first step.
    np.testing.assert_allclose(look.seen[1], 0.2 * X.T @ np.array([[8.0], [1.0]]), rtol=1e-6)
    assert WEIGHTS in model.get_variable_names()


def test_a_hook_asks_the_graph_for_the_value_of_a_variable(tmp_path: Path) -> None:
    class Begins(Look):
        def begin(self) -> None:
            self.name = v1.get_default_graph().get_tensor_by_name(self.name)
            with pytest.raises(KeyError, match="nothing"):
                v1.get_default_graph().get_tensor_by_name("nothing:0")

    looks = [Begins(f"{WEIGHTS}{end}") for end in ("/part_0:0", ":0", "/read:0")]
    regressor(tmp_path, 0.1).train(read, hooks=looks, steps=2)
    for look in looks:
        np.testing.assert_allclose(look.seen[0], np.zeros([2, 1]))
        np.testing.assert_allclose(look.seen[1], 0.2 * X.T @ np.array([[8.0], [1.0]]), rtol=1e-6)


def test_a_penalty_of_a_canned_model_asks_with_a_partitioner(tmp_path: Path) -> None:
    """As neural-structured-learning's graph regularization does."""
    model = regressor(tmp_path)
    inner = model._model_fn

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> Any:
        with v1.variable_scope(v1.get_variable_scope(), reuse=v1.AUTO_REUSE):
            spec = inner(features, labels, mode, config)
            weights = v1.get_variable(WEIGHTS, [2, 1], partitioner=v1.fixed_size_partitioner(1))
            loss = tf.reduce_sum(tf.square(weights - 1.0))
            step = v1.train.get_global_step()
            train_op = v1.train.GradientDescentOptimizer(0.25).minimize(loss, step)
        return spec._replace(loss=loss, train_op=train_op)

    model._model_fn = model_fn
    model.train(read, steps=1)
    np.testing.assert_allclose(model.get_variable_value(WEIGHTS), [[0.5], [0.5]])


@pytest.mark.parametrize("parts", [1, 2])
def test_other_variables_are_split_as_ever(tmp_path: Path, parts: int) -> None:
    made: list[Any] = []

    def model_fn(features: Any, labels: Any, mode: str) -> Any:
        w = v1.get_variable("w", [2, 1], partitioner=v1.fixed_size_partitioner(parts))
        made.append([one.name for one in w])
        loss = tf.reduce_sum(tf.square(features["x"] @ w - labels))
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    model = est.Estimator(model_fn, tmp_path).train(read, steps=1)
    assert made[0] == [f"w/part_{number}:0" for number in range(parts)]
    assert model.get_variable_names() == ["global_step", "w"]
