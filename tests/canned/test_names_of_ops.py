"""Hooks find the ops of canned models by the names that these had."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import estimand as est

v1 = est.compat.v1
X = tf.feature_column.numeric_column("x")


def input_fn() -> tf.data.Dataset:
    rows = {"x": [[1.0], [2.0]], "weight": [[1.0], [3.0]]}
    return tf.data.Dataset.from_tensors((rows, [[1], [0]])).repeat()


class Seen(est.SessionRunHook):
    def __init__(self, scope: str, *names: str) -> None:
        self._wanted: dict[str, Any] = {n: f"{scope}/{n}" for n in names}
        self.values: list[dict[str, float]] = []

    def before_run(self, run_context: Any) -> Any:
        return est.SessionRunArgs(self._wanted)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.values.append(run_values.results)


@pytest.mark.parametrize(
    ("scope", "make"),
    [
        ("linear/head", lambda where: v1.LinearClassifier([X], where, weight_column="weight")),
        ("dnn/head", lambda where: v1.DNNRegressor([2], [X], where, weight_column="weight")),
        (
            "head",
            lambda where: v1.DNNLinearCombinedClassifier(
                where, [X], dnn_feature_columns=[X], dnn_hidden_units=[2]
            ),
        ),
    ],
    ids=["linear", "dnn", "both"],
)
def test_sum_and_mean_of_the_loss(scope: str, make: Any, tmp_path: Path) -> None:
    seen = Seen(scope, "weighted_loss/Sum:0", "truediv:0")
    make(str(tmp_path)).train(input_fn, steps=2, hooks=[seen])
    weight = 2.0 if scope == "head" else 4.0
    assert len(seen.values) == 2
    for values in seen.values:
        assert values["truediv:0"] == pytest.approx(values["weighted_loss/Sum:0"] / weight)


@pytest.mark.parametrize("reduction", ["MEAN", "SUM_OVER_BATCH_SIZE", "SUM_BY_NONZERO_WEIGHTS"])
def test_a_loss_that_is_a_mean(reduction: str, tmp_path: Path) -> None:
    seen = Seen("dnn/head", "weighted_loss/value:0")
    estimator = v1.DNNRegressor(
        [2],
        [X],
        str(tmp_path),
        weight_column="weight",
        optimizer=tf.compat.v1.train.GradientDescentOptimizer(0.0),
        loss_reduction=getattr(tf.compat.v1.losses.Reduction, reduction),
    )
    estimator.train(input_fn, steps=1, hooks=[seen])
    loss = estimator.evaluate(input_fn, steps=1)["loss"]
    assert seen.values[0]["weighted_loss/value:0"] == pytest.approx(loss)
