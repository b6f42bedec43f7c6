"""`LinearSDCA` finds the optimum of its objective, which NumPy finds another way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from tests.canned import cases

C = cases.columns()
FEATURES, LABELS = cases.table()
# In the order of the columns' names; then the bias.
NAMES = ("ids/weights", "word/weights", "x/weights", "bias_weights")


def input_fn(label: str, repeat: bool = True) -> tf.data.Dataset:
    dataset = tf.data.Dataset.from_tensor_slices((FEATURES, LABELS[label]))
    return (dataset.repeat() if repeat else dataset).batch(cases.BATCH)


def trained(make: Any, label: str, steps: int = 300, **settings: Any) -> est.Estimator:
    solver = est.experimental.LinearSDCA("row", **settings)
    return make(optimizer=solver).train(lambda: input_fn(label), steps=steps)


def weights(estimator: est.Estimator) -> np.ndarray:
    read = [estimator.get_variable_value(f"linear/linear_model/{name}") for name in NAMES]
    return np.concatenate([np.ravel(one) for one in read])


def design() -> np.ndarray:
    """What the weights are multiplied with: ids counted, hashed words, x, 1."""
    ids = np.zeros([cases.ROWS, 6])
    np.add.at(ids, (np.arange(cases.ROWS)[:, None], FEATURES["ids"]), 1.0)
    buckets = tf.strings.to_hash_bucket_fast(FEATURES["word"], 8).numpy()
    return np.hstack([ids, np.eye(8)[buckets], FEATURES["x"], np.ones([cases.ROWS, 1])])


def logistic_optimum(l2: float, importance: np.ndarray) -> np.ndarray:
    """Newton's method."""
    x, y, w = design(), LABELS["binary"], np.zeros(17)
    for _ in range(30):
        p = 1.0 / (1.0 + np.exp(-x @ w))
        slope = x.T @ (importance * (p - y)) + l2 * w
        curvature = (x.T * (importance * p * (1 - p))) @ x + l2 * np.eye(17)
        w = w - np.linalg.solve(curvature, slope)
    return w


def lasso_optimum(l1: float, l2: float) -> np.ndarray:
    """Of half the squared errors: one coordinate after the other, until none moves."""
    x, y, w = design(), LABELS["number"].astype(float), np.zeros(17)
    for _ in range(3000):
        for j in range(17):
            pull = x[:, j] @ (y - x @ w + x[:, j] * w[j])
            w[j] = np.sign(pull) * max(0.0, abs(pull) - l1) / (x[:, j] @ x[:, j] + l2)
    return w


def test_a_classifier_reaches_the_optimum() -> None:
    def make(optimizer: Any) -> est.Estimator:
        return est.LinearClassifier(C.wide, weight_column="weight", optimizer=optimizer)

    estimator = trained(make, "binary", symmetric_l2_regularization=2.0)
    np.testing.assert_allclose(
        weights(estimator), logistic_optimum(2.0, FEATURES["weight"]), atol=5e-3
    )


def test_a_regressor_reaches_the_optimum_with_l1() -> None:
    def make(optimizer: Any) -> est.Estimator:
        return est.LinearRegressor(C.wide, optimizer=optimizer)

    estimator = trained(make, "number", 600, symmetric_l1_regularization=5.0)
    expected = lasso_optimum(5.0, 1.0)
    assert 3 < np.sum(expected == 0) < 17
    np.testing.assert_allclose(weights(estimator), expected, atol=2e-2)


def test_words_as_labels_and_the_v1_model() -> None:
    def make(optimizer: Any) -> est.Estimator:
        return est.compat.v1.LinearClassifier(
            C.wide, label_vocabulary=["no", "yes"], optimizer=optimizer
        )

    estimator = trained(make, "yes_no")
    names = {name for name, _ in tf.train.list_variables(estimator.model_dir)}
    assert "linear/linear/linear_model/x/weights/part_0_unshrunk" in names
    np.testing.assert_allclose(weights(estimator), logistic_optimum(1.0, np.ones(100)), atol=5e-3)


def test_training_goes_on_with_what_is_kept_of_the_examples(tmp_path: Path) -> None:
    def make() -> est.Estimator:
        solver = est.experimental.LinearSDCA("row")
        return est.LinearClassifier([C.x], optimizer=solver, model_dir=tmp_path)

    once = lambda: input_fn("binary", repeat=False)  # noqa: E731
    make().train(lambda: input_fn("binary"), steps=100)
    before = make().evaluate(once)["loss"]
    make().train(lambda: input_fn("binary"), steps=5)
    # It had converged: had the dual variables been lost, a pass over all rows would move it.
    assert make().evaluate(once)["loss"] == pytest.approx(before, rel=2e-4)
    keys = tf.train.load_variable(str(tmp_path), "ShardedMutableHashTable-1-of-1-keys")
    assert np.sum(np.any(keys != 0, axis=1)) == cases.ROWS


def test_more_than_two_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot be used in a multi-class setting"):
        est.LinearClassifier([C.x], n_classes=3, optimizer=est.experimental.LinearSDCA("row"))


def test_another_combiner_than_sum_is_refused() -> None:
    with pytest.raises(ValueError, match='sparse_combiner must be "sum" when optimizer'):
        est.LinearRegressor(
            [C.x], sparse_combiner="mean", optimizer=est.experimental.LinearSDCA("row")
        )


def test_a_head_with_another_loss_is_refused() -> None:
    head = est.LogisticRegressionHead()
    with pytest.raises(ValueError, match="Unsupported head type"):
        est.LinearEstimator(head, [C.x], optimizer=est.experimental.LinearSDCA("row"))


def test_an_embedding_is_refused() -> None:
    estimator = est.LinearClassifier([C.deep[1]], optimizer=est.experimental.LinearSDCA("row"))
    with pytest.raises(ValueError, match="does not support column type EmbeddingColumn"):
        estimator.train(lambda: input_fn("binary"), steps=1)


def test_without_the_ids_the_features_are_listed() -> None:
    estimator = est.LinearClassifier([C.x], optimizer=est.experimental.LinearSDCA("key"))
    with pytest.raises(ValueError, match=r"ids of examples in feature 'key'.*x, word"):
        estimator.train(lambda: input_fn("binary"), steps=1)


def test_no_l2_is_refused() -> None:
    with pytest.raises(ValueError, match="symmetric_l2_regularization should be non zero"):
        est.experimental.LinearSDCA("row", symmetric_l2_regularization=0.0)
