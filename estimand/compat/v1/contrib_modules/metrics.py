"""`tf.contrib.metrics`: `tf.metrics` under older names, with predictions before labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1
_Pair = tuple[Any, Any]


def _predictions_first(metric: Callable[..., Any]) -> Callable[..., Any]:
    def streaming(predictions: Any, labels: Any, *args: Any, **kwargs: Any) -> Any:
        return metric(labels, predictions, *args, **kwargs)

    streaming.__name__ = f"streaming_{metric.__name__}"
    streaming.__doc__ = f"`tf.compat.v1.metrics.{metric.__name__}`, with predictions first."
    return streaming


def _swapped(metric: str) -> Any:
    return _predictions_first(getattr(v1.metrics, metric))


streaming_accuracy = _swapped("accuracy")
streaming_auc = _swapped("auc")
streaming_false_negatives = _swapped("false_negatives")
streaming_false_negatives_at_thresholds = _swapped("false_negatives_at_thresholds")
streaming_false_positives = _swapped("false_positives")
streaming_false_positives_at_thresholds = _swapped("false_positives_at_thresholds")
streaming_mean_absolute_error = _swapped("mean_absolute_error")
streaming_mean_cosine_distance = _swapped("mean_cosine_distance")
streaming_mean_iou = _swapped("mean_iou")
streaming_mean_relative_error = _swapped("mean_relative_error")
streaming_mean_squared_error = _swapped("mean_squared_error")
streaming_precision = _swapped("precision")
streaming_precision_at_thresholds = _swapped("precision_at_thresholds")
streaming_recall = _swapped("recall")
streaming_recall_at_thresholds = _swapped("recall_at_thresholds")
streaming_root_mean_squared_error = _swapped("root_mean_squared_error")
streaming_sensitivity_at_specificity = _swapped("sensitivity_at_specificity")
streaming_sparse_average_precision_at_k = _swapped("average_precision_at_k")
streaming_sparse_precision_at_k = _swapped("precision_at_k")
streaming_sparse_recall_at_k = _swapped("recall_at_k")
streaming_specificity_at_sensitivity = _swapped("specificity_at_sensitivity")
streaming_true_negatives = _swapped("true_negatives")
streaming_true_negatives_at_thresholds = _swapped("true_negatives_at_thresholds")
streaming_true_positives = _swapped("true_positives")
streaming_true_positives_at_thresholds = _swapped("true_positives_at_thresholds")
streaming_mean = v1.metrics.mean
streaming_mean_tensor = v1.metrics.mean_tensor
streaming_percentage_less = v1.metrics.percentage_below


def accuracy(predictions: Any, labels: Any, weights: Any = None, name: str | None = None) -> Any:
    """How many of this batch are right."""
    with tf.name_scope(name or "accuracy"):
        right = tf.cast(tf.equal(predictions, labels), tf.float32)
        if weights is None:
            return tf.reduce_mean(right)
        weights = tf.broadcast_to(tf.cast(weights, tf.float32), tf.shape(right))
        return tf.math.divide_no_nan(tf.reduce_sum(right * weights), tf.reduce_sum(weights))


def aggregate_metrics(*pairs: _Pair) -> tuple[list[Any], list[Any]]:
    """The values of (value, update) pairs, and their updates."""
    if not pairs:
        raise ValueError("Expected at least one metric tensor tuple.")
    values, updates = zip(*pairs, strict=True)
    return list(values), list(updates)


def aggregate_metric_map(by_name: dict[str, _Pair]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The same by name."""
    values = {name: pair[0] for name, pair in by_name.items()}
    return values, {name: pair[1] for name, pair in by_name.items()}


def f1_score(labels: Any, predictions: Any, weights: Any = None, **others: Any) -> _Pair:
    """The harmonic mean of precision and recall, at a threshold of a half."""
    del others
    right = tf.cast(tf.convert_to_tensor(predictions) >= 0.5, tf.bool)
    precision = v1.metrics.precision(labels, right, weights)
    recall = v1.metrics.recall(labels, right, weights)

    def mean(p: Any, r: Any) -> Any:
        return tf.math.divide_no_nan(2.0 * p * r, p + r)

    return mean(precision[0], recall[0]), mean(precision[1], recall[1])


def streaming_recall_at_k(
    predictions: Any, labels: Any, k: int, weights: Any = None, **others: Any
) -> _Pair:
    """How many labels are among the `k` largest predictions."""
    right = tf.cast(tf.math.in_top_k(labels, predictions, k), tf.float32)
    return v1.metrics.mean(right, weights, **others)


def count(values: Any, weights: Any = None, name: str | None = None, **collections: Any) -> _Pair:
    """How many values there were, or the sum of their weights."""
    with v1.variable_scope(name, "count", [values, weights]):
        ones = tf.ones_like(values, tf.float32)
        if weights is not None:
            ones *= tf.cast(weights, tf.float32)
        return _collected(*_sum("count", tf.reduce_sum(ones)), **collections)


def streaming_covariance(
    predictions: Any,
    labels: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> _Pair:
    """The unbiased covariance of all examples so far."""
    with v1.variable_scope(name, "covariance", [predictions, labels, weights]):
        sums = _Moments(predictions, labels, weights)
        pair = sums.covariance(0), sums.covariance(1)
        return _collected(*pair, metrics_collections, updates_collections)


def streaming_pearson_correlation(
    predictions: Any,
    labels: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> _Pair:
    """The correlation of all examples so far."""
    with v1.variable_scope(name, "pearson_r", [predictions, labels, weights]):
        sums = _Moments(predictions, labels, weights)
        pair = sums.correlation(0), sums.correlation(1)
        return _collected(*pair, metrics_collections, updates_collections)


class _Moments:
    """Sums of products in double precision, before (0) and after (1) the update."""

    def __init__(self, predictions: Any, labels: Any, weights: Any) -> None:
        x, y = (tf.reshape(tf.cast(t, tf.float64), [-1]) for t in (predictions, labels))
        w = tf.ones_like(x)
        if weights is not None:
            w *= tf.reshape(tf.cast(weights, tf.float64), [-1])
        terms = {"n": w, "x": w * x, "y": w * y, "xx": w * x * x, "yy": w * y * y, "xy": w * x * y}
        self._sums = {name: _sum(name, tf.reduce_sum(term)) for name, term in terms.items()}

    def _about_means(self, one: str, other: str, when: int) -> tf.Tensor:
        of = {name: pair[when] for name, pair in self._sums.items()}
        return of[one + other] - tf.math.divide_no_nan(of[one] * of[other], of["n"])

    def covariance(self, when: int) -> tf.Tensor:
        products, n = self._about_means("x", "y", when), self._sums["n"][when]
        return tf.cast(tf.math.divide_no_nan(products, n - 1), tf.float32)

    def correlation(self, when: int) -> tf.Tensor:
        products = self._about_means("x", "y", when)
        spread = self._about_means("x", "x", when) * self._about_means("y", "y", when)
        return tf.cast(products / tf.sqrt(spread), tf.float32)


def _sum(name: str, term: tf.Tensor) -> _Pair:
    """A sum of a metric, and its update."""
    total = v1.get_variable(
        name,
        [],
        term.dtype,
        v1.zeros_initializer(),
        trainable=False,
        collections=[v1.GraphKeys.LOCAL_VARIABLES, v1.GraphKeys.METRIC_VARIABLES],
    )
    return tf.identity(total), v1.assign_add(total, term)


def _collected(
    value: Any, update: Any, metrics_collections: Any = None, updates_collections: Any = None
) -> _Pair:
    v1.add_to_collections(metrics_collections or (), value)
    v1.add_to_collections(updates_collections or (), update)
    return value, update
