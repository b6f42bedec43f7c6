"""Area under the ROC or the precision-recall curve, over 200 thresholds."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.heads.metrics.base import HeadMetric, as_float, broadcast_weights

_THRESHOLDS = 200
_EPSILON = 1e-6


class AUC(HeadMetric):
    """The area under a curve of scores in [0, 1], all values of a batch taken together.

    Kept is a histogram of the scores, of positive and of negative examples. Its sums from the
    top are the true and false positives at every threshold. With `rule="trapezoidal"` the area is
    what `tf.compat.v1.metrics.auc` takes it for.

    >>> metric = AUC("auc")
    >>> metric.update_state([0, 0, 1, 1], [0.1, 0.6, 0.4, 0.9])
    >>> float(metric.result())
    0.75
    """

    def __init__(self, name: str, curve: str = "ROC", rule: str = "interpolation") -> None:
        super().__init__(name, [_THRESHOLDS, 2])
        self.curve = curve
        self.rule = rule

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        scores = as_float(y_pred)
        labels = as_float(tf.not_equal(as_float(y_true), 0.0))
        weights = (
            tf.ones_like(scores)
            if sample_weight is None
            else broadcast_weights(sample_weight, scores)
        )
        # A score that is no number makes the area none, too; it must not just drop out.
        weights = tf.where(tf.math.is_nan(scores), scores, weights)
        steps = tf.clip_by_value(scores, 0.0, 1.0) * (_THRESHOLDS - 1)
        # A score on a threshold is not above it; 0 is above the first, which lies below 0.
        buckets = tf.where(steps > 0.0, tf.math.ceil(steps) - 1.0, tf.zeros_like(steps))
        pairs = tf.stack([labels * weights, (1.0 - labels) * weights], axis=-1)
        histogram = tf.math.unsorted_segment_sum(
            tf.reshape(pairs, [-1, 2]),
            tf.reshape(tf.cast(buckets, tf.int32), [-1]),
            _THRESHOLDS,
        )
        self._state.assign_add(histogram, read_value=False)

    def result(self) -> tf.Tensor:
        above = tf.cumsum(self._state.read_value(), axis=0, reverse=True)
        true_positives, false_positives = above[:, 0], above[:, 1]
        if self.rule == "trapezoidal":
            return _area_of_trapezoids(true_positives, false_positives, self.curve)
        if self.curve == "ROC":
            return _area_under_roc(true_positives, false_positives)
        return _area_under_precision_recall(true_positives, false_positives)


def _area_under_roc(true_positives: tf.Tensor, false_positives: tf.Tensor) -> tf.Tensor:
    recall = tf.math.divide_no_nan(true_positives, true_positives[0])
    fall_out = tf.math.divide_no_nan(false_positives, false_positives[0])
    return tf.reduce_sum((fall_out[:-1] - fall_out[1:]) * (recall[:-1] + recall[1:]) / 2.0)


def _area_of_trapezoids(
    true_positives: tf.Tensor, false_positives: tf.Tensor, curve: str
) -> tf.Tensor:
    """Straight lines between the thresholds, on either curve; epsilons where v1 had them."""
    recall = (true_positives + _EPSILON) / (true_positives[0] + _EPSILON)
    if curve == "ROC":
        x, y = false_positives / (false_positives[0] + _EPSILON), recall
    else:
        predicted = true_positives + false_positives
        x, y = recall, (true_positives + _EPSILON) / (predicted + _EPSILON)
    return tf.reduce_sum((x[:-1] - x[1:]) * (y[:-1] + y[1:]) / 2.0)


def _area_under_precision_recall(
    true_positives: tf.Tensor, false_positives: tf.Tensor
) -> tf.Tensor:
    """After Davis and Goadrich (2006): between thresholds the counts are linear, not precision.

    With t true positives among p predicted ones, both linear in between, t = slope p + rest, and
    the integral of t / p over dt is slope (dt + rest log(p_low / p_high)).
    """
    positives = true_positives[0]
    predicted = true_positives + false_positives
    p_low, p_high = predicted[:-1], predicted[1:]
    hits = true_positives[:-1] - true_positives[1:]
    slope = tf.math.divide_no_nan(hits, tf.maximum(p_low - p_high, 0.0))
    rest = true_positives[1:] - slope * p_high
    both = (p_low > 0.0) & (p_high > 0.0)
    ratio = tf.where(both, tf.math.divide_no_nan(p_low, p_high), tf.ones_like(p_low))
    area = slope * (hits + rest * tf.math.log(ratio))
    return tf.reduce_sum(tf.math.divide_no_nan(area, positives))
