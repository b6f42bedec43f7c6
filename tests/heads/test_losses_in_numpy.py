"""The loss of every head against the formula, written down in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import gammaln

import estimand as est

LOGITS = np.array([[2.0], [-1.0], [0.5], [-30.0]], "float32")
LABELS = np.array([[1], [1], [0], [0]])
WEIGHTS = np.array([1.0, 0.0, 3.0, 0.5], "float32")


def sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-np.asarray(x, "float64")))


def cross_entropy(labels: Any, logits: Any) -> Any:
    p = sigmoid(logits)
    return -(labels * np.log(p) + (1 - labels) * np.log(1 - p))


def softmax_cross_entropy(labels: Any, logits: Any) -> Any:
    logits = np.asarray(logits, "float64")
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    return -np.take_along_axis(logs, np.asarray(labels), -1)


REDUCTIONS = {
    "sum": lambda losses, w: (losses * w).sum(),
    "sum_over_batch_size": lambda losses, w: (losses * w).sum() / losses.size,
    "auto": lambda losses, w: (losses * w).sum() / losses.size,
    tf.compat.v1.losses.Reduction.SUM: lambda losses, w: (losses * w).sum(),
    tf.compat.v1.losses.Reduction.MEAN: lambda losses, w: (losses * w).sum() / w.sum(),
    tf.compat.v1.losses.Reduction.SUM_BY_NONZERO_WEIGHTS: lambda losses, w: (
        (losses * w).sum() / (w != 0).sum()
    ),
    tf.compat.v1.losses.Reduction.SUM_OVER_BATCH_SIZE: lambda losses, w: (losses * w).mean(),
}


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_every_reduction(reduction: str) -> None:
    head = est.BinaryClassHead(weight_column="w", loss_reduction=reduction)
    expected = REDUCTIONS[reduction](cross_entropy(LABELS, LOGITS), WEIGHTS[:, None])
    assert float(head.loss(LABELS, LOGITS, {"w": WEIGHTS})) == pytest.approx(expected, rel=1e-6)
    assert head.loss_reduction == reduction


@pytest.mark.parametrize("shape", [(4,), (4, 1)])
@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool", "float32", "float64"])
def test_binary_takes_labels_of_any_number_type_and_either_shape(shape: Any, dtype: str) -> None:
    labels = LABELS.reshape(shape).astype(dtype)
    expected = cross_entropy(LABELS, LOGITS).mean()
    assert float(est.BinaryClassHead().loss(labels, LOGITS)) == pytest.approx(expected, rel=1e-6)


def test_binary_of_large_logits_stays_finite() -> None:
    logits = [[1000.0], [-1000.0]]
    assert float(est.BinaryClassHead().loss([[0], [0]], logits)) == pytest.approx(500.0)


def test_multi_class_at_both_ends_of_the_label_range() -> None:
    logits = np.random.RandomState(0).randn(4, 5).astype("float32")
    labels = np.array([0, 4, 4, 0])
    expected = softmax_cross_entropy(labels[:, None], logits).mean()
    assert float(est.MultiClassHead(5).loss(labels, logits)) == pytest.approx(expected, rel=1e-6)


def test_multi_class_weights_multiply_the_loss_of_the_example() -> None:
    logits = np.random.RandomState(0).randn(4, 3).astype("float32")
    labels = np.array([[0], [2], [1], [1]])
    head = est.MultiClassHead(3, weight_column="w", loss_reduction="sum")
    expected = (softmax_cross_entropy(labels, logits) * WEIGHTS[:, None]).sum()
    assert float(head.loss(labels, logits, {"w": WEIGHTS})) == pytest.approx(expected, rel=1e-6)


def test_multi_label_is_the_mean_over_classes() -> None:
    logits = np.random.RandomState(0).randn(4, 3).astype("float32")
    labels = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0]])
    head = est.MultiLabelHead(3, weight_column="w")
    expected = (cross_entropy(labels, logits).mean(-1) * WEIGHTS).mean()
    assert float(head.loss(labels, logits, {"w": WEIGHTS})) == pytest.approx(expected, rel=1e-6)


def test_multi_label_of_sparse_ids_equals_that_of_the_indicator() -> None:
    logits = np.random.RandomState(0).randn(2, 3).astype("float32")
    sparse = tf.SparseTensor([[0, 0], [0, 1]], tf.constant([2, 0], tf.int64), [2, 2])
    head = est.MultiLabelHead(3)
    expected = cross_entropy(np.array([[1, 0, 1], [0, 0, 0]]), logits).mean()
    assert float(head.loss(sparse, logits)) == pytest.approx(expected, rel=1e-6)


def test_regression_is_the_squared_error_over_all_labels() -> None:
    logits, labels = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0, 4], [3, 1]])
    expected = ((logits - labels) ** 2).mean()
    assert float(est.RegressionHead(2).loss(labels, logits)) == pytest.approx(expected)


def test_regression_weights_may_be_given_per_label() -> None:
    logits, labels = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0, 4], [3, 1]])
    weights = np.array([[1.0, 0.0], [2.0, 0.5]])
    head = est.RegressionHead(2, weight_column="w", loss_reduction="sum")
    expected = (weights * (logits - labels) ** 2).sum()
    assert float(head.loss(labels, logits, {"w": weights})) == pytest.approx(expected)


def test_poisson_is_minus_the_log_likelihood() -> None:
    logits = np.array([[0.3], [-1.0], [1.2]])
    labels = np.array([[0.0], [4.0], [9.0]])
    head = est.PoissonRegressionHead()
    exact = np.exp(logits) - labels * logits + gammaln(labels + 1)
    # log(label!) by Stirling's formula, which is left out for labels of 0 and 1
    assert float(head.loss(labels, logits)) == pytest.approx(exact.mean(), abs=0.02)
    head = est.PoissonRegressionHead(compute_full_loss=False)
    expected = (np.exp(logits) - labels * logits).mean()
    assert float(head.loss(labels, logits)) == pytest.approx(expected, rel=1e-6)


def test_logistic_regression_takes_shares_as_labels() -> None:
    labels = np.array([[0.0], [0.3], [1.0], [0.5]])
    expected = cross_entropy(labels, LOGITS).mean()
    loss = est.LogisticRegressionHead().loss(labels, LOGITS)
    assert float(loss) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("squared", [False, True])
def test_hinge_wants_a_margin_of_one(squared: bool) -> None:
    lacking = np.maximum(0.0, 1.0 - np.where(LABELS == 1, LOGITS, -LOGITS))
    expected = (lacking**2 if squared else lacking) * WEIGHTS[:, None]
    head = est.HingeHead(weight_column="w", squared=squared)
    loss = float(head.loss(LABELS, LOGITS, {"w": WEIGHTS}))
    assert loss == pytest.approx(expected.mean(), rel=1e-6)


def test_regularization_losses_are_added_once() -> None:
    head = est.RegressionHead(loss_reduction="sum")
    loss = head.loss([[1.0]], [[3.0]], regularization_losses=[tf.constant(0.5), tf.constant(2.0)])
    assert float(loss) == 6.5


def test_an_empty_list_of_regularization_losses_is_none() -> None:
    head = est.RegressionHead()
    assert float(head.loss([[1.0]], [[3.0]], regularization_losses=[])) == 4.0
    assert "regularization_loss" not in head.metrics(regularization_losses=[])


def test_an_empty_batch_has_a_loss_of_zero() -> None:
    assert float(est.RegressionHead().loss(np.zeros([0, 1]), np.zeros([0, 1]))) == 0.0


def test_a_loss_function_may_ask_for_features_and_the_reduction() -> None:
    seen = {}

    def loss_fn(labels, logits, features, loss_reduction):
        seen["reduction"] = loss_reduction
        return tf.abs(labels - logits) * features["scale"]

    head = est.RegressionHead(loss_fn=loss_fn, loss_reduction="sum")
    assert float(head.loss([[1.0]], [[3.0]], {"scale": 10.0})) == 20.0
    assert seen == {"reduction": "sum"}


def test_the_gradient_of_the_loss_reaches_the_logits() -> None:
    logits = tf.constant(LOGITS)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        loss = est.BinaryClassHead().loss(LABELS, logits)
    expected = (sigmoid(LOGITS) - LABELS) / 4
    np.testing.assert_allclose(tape.gradient(loss, logits), expected, rtol=1e-5, atol=1e-8)
