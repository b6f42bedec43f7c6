"""Canned models of tf.compat.v1.estimator write summaries under the tags of version 2.15.

Tags and numbers are those that tf.estimator 2.15 wrote for the same models and rows.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import estimand as est
from estimand.engine.events import read_scalars

v1 = est.compat.v1
X = tf.feature_column.numeric_column("x", (2,))
LINEAR = {"linear/fraction_of_zero_weights"}
DEEP = {f"dnn/dnn/{layer}/fraction_of_zero_values" for layer in ("hiddenlayer_0", "logits")}


def rows(labels: Any) -> Any:
    x = [[0.0, 1 / 7], [2 / 7, 3 / 7], [4 / 7, 5 / 7], [6 / 7, 1.0]]
    features = {"x": x, "w": [1.0, 2.0, 0.0, 0.5]}
    return lambda: tf.data.Dataset.from_tensor_slices((features, labels)).batch(4)


CLASSES = rows([0, 1, 1, 0])


def written(model: Any, input_fn: Any) -> dict[str, float]:
    model.train(input_fn, steps=1)
    scalars = read_scalars(model.model_dir)
    return {tag: found[0][1] for tag, found in scalars.items() if "sec" not in tag}


@pytest.mark.parametrize(
    ("make", "tags"),
    [
        (lambda d: v1.LinearClassifier([X], d), LINEAR | {"linear/bias"}),
        (lambda d: v1.DNNClassifier([3], [X], d, n_classes=3), DEEP),
        (
            lambda d: v1.DNNLinearCombinedClassifier(
                d, [X], dnn_feature_columns=[X], dnn_hidden_units=[3]
            ),
            DEEP | LINEAR | {"linear/bias", "linear/linear/fraction_of_zero_values"},
        ),
        (lambda d: v1.BaselineClassifier(d), set()),
    ],
    ids=["linear", "deep", "both", "baseline"],
)
def test_each_part_has_its_scope(make: Any, tags: set[str], tmp_path: Path) -> None:
    assert set(written(make(str(tmp_path)), CLASSES)) == {"loss", "average_loss", *tags}


@pytest.mark.parametrize(
    ("settings", "loss", "average"),
    [
        ({}, 33.0, 4.125),
        ({"weight_column": "w"}, 36.0, 5.142857),
        ({"weight_column": "w", "loss_reduction": "weighted_mean"}, 5.142857, None),
        ({"weight_column": "w", "loss_reduction": "weighted_sum_over_batch_size"}, 4.5, None),
    ],
    ids=["sum", "weighted", "mean", "batch size"],
)
def test_a_summed_loss_also_writes_its_mean(
    settings: dict[str, Any], loss: float, average: float | None, tmp_path: Path
) -> None:
    model = v1.LinearRegressor([X], str(tmp_path), label_dimension=2, **settings)
    found = written(model, rows([[0.0, 1.0], [2.0, 3.0], [1.0, 0.0], [3.0, 3.0]]))
    assert found["loss"] == pytest.approx(loss)
    assert found.get("average_loss") == (average and pytest.approx(average))
