"""Metrics of contrib over several batches, against NumPy over all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from estimand.compat.v1 import contrib

v1 = tf.compat.v1
metrics = contrib.metrics


def over(metric: Callable[..., Any], *batches: tuple[Any, ...]) -> tuple[Any, Any]:
    """The value after all batches, and what the last update gave."""
    with tf.Graph().as_default(), v1.Session() as session:
        given = [v1.placeholder(tf.as_dtype(x.dtype), x.shape) for x in batches[0]]
        value, update = metric(*given)
        session.run(v1.local_variables_initializer())
        for batch in batches:
            last = session.run(update, dict(zip(given, batch, strict=True)))
        return session.run(value), last


def test_correlation_and_covariance() -> None:
    random = np.random.RandomState(0)
    x = random.normal(1000.0, 1.0, size=(3, 20)).astype(np.float32)
    y = (x + random.normal(size=(3, 20))).astype(np.float32)
    w = random.randint(0, 3, size=(3, 20)).astype(np.float32)
    batches = list(zip(x, y, strict=True))
    expected = np.corrcoef(x.ravel(), y.ravel())[0, 1]
    assert over(metrics.streaming_pearson_correlation, *batches) == pytest.approx(
        (expected, expected), rel=1e-4
    )
    covariance = np.cov(x.ravel(), y.ravel())[0, 1]
    assert over(metrics.streaming_covariance, *batches)[0] == pytest.approx(covariance, rel=1e-4)
    weighted = np.cov(x.ravel(), y.ravel(), fweights=w.ravel().astype(int))
    expected = weighted[0, 1] / np.sqrt(weighted[0, 0] * weighted[1, 1])
    found, _ = over(metrics.streaming_pearson_correlation, *zip(x, y, w, strict=True))
    assert found == pytest.approx(expected, rel=1e-4)


def test_the_best_k() -> None:
    predictions = np.array([[0.1, 0.7, 0.2], [0.5, 0.2, 0.3]], np.float32)
    labels = np.array([2, 1], np.int64)
    top = metrics.streaming_recall_at_k
    assert over(lambda p, y: top(p, y, 1), (predictions, labels))[0] == 0.0
    assert over(lambda p, y: top(p, y, 2), (predictions, labels))[0] == 0.5
    sparse = metrics.streaming_sparse_recall_at_k
    assert over(lambda p, y: sparse(p, y, 2), (predictions, labels[:, None]))[0] == 0.5


def test_counts_and_thresholds() -> None:
    predictions = np.array([0.1, 0.4, 0.6, 0.9], np.float32)
    labels = np.array([False, True, False, True])
    assert over(lambda p, y: metrics.count(p), (predictions, labels), (predictions, labels))[0] == 8
    at = metrics.streaming_precision_at_thresholds
    found, _ = over(lambda p, y: at(p, y, [0.3, 0.5]), (predictions, labels))
    np.testing.assert_allclose(found, [2 / 3, 1 / 2], rtol=1e-4)
    specific = metrics.streaming_sensitivity_at_specificity
    found, _ = over(lambda p, y: specific(p, y, 0.5), (predictions, labels))
    assert found == pytest.approx(1.0)


def test_confusion_and_sets() -> None:
    matrix = metrics.confusion_matrix([0, 1, 1], [0, 0, 1])
    assert matrix.numpy().tolist() == [[1, 0], [1, 1]]
    sets = tf.constant([[1, 2, 2], [3, 3, 3]])
    assert metrics.set_size(tf.sparse.from_dense(sets)).numpy().tolist() == [2, 1]
