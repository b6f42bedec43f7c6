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


streaming_accuracy = _predictions_first(v1.metrics.accuracy)
streaming_auc = _predictions_first(v1.metrics.auc)
streaming_false_negatives = _predictions_first(v1.metrics.false_negatives)
streaming_false_positives = _predictions_first(v1.metrics.false_positives)
streaming_mean_absolute_error = _predictions_first(v1.metrics.mean_absolute_error)
streaming_mean_iou = _predictions_first(v1.metrics.mean_iou)
streaming_mean_relative_error = _predictions_first(v1.metrics.mean_relative_error)
streaming_mean_squared_error = _predictions_first(v1.metrics.mean_squared_error)
streaming_precision = _predictions_first(v1.metrics.precision)
streaming_recall = _predictions_first(v1.metrics.recall)
streaming_root_mean_squared_error = _predictions_first(v1.metrics.root_mean_squared_error)
streaming_true_negatives = _predictions_first(v1.metrics.true_negatives)
streaming_true_positives = _predictions_first(v1.metrics.true_positives)
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
