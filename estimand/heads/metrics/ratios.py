"""Metrics that are one sum divided by another: means, accuracies, precision, recall."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.heads.metrics.base import HeadMetric, as_float, broadcast_weights


class _Ratio(HeadMetric):
    """Keeps [numerator, denominator]; 0 while there is nothing to divide by."""

    def __init__(self, name: str) -> None:
        super().__init__(name, [2])

    def _add(self, numerator: tf.Tensor, denominator: tf.Tensor) -> None:
        self._state.assign_add(tf.stack([numerator, denominator]), read_value=False)

    def result(self) -> tf.Tensor:
        state = self._state.read_value()
        return tf.math.divide_no_nan(state[0], state[1])


class Mean(_Ratio):
    """The weighted mean of values.

    >>> metric = Mean("loss")
    >>> metric.update_state([1.0, 4.0], sample_weight=[3.0, 1.0])
    >>> float(metric.result())
    1.75
    """

    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        values = as_float(values)
        if sample_weight is None:
            self._add(tf.reduce_sum(values), tf.cast(tf.size(values), tf.float32))
        else:
            weights = broadcast_weights(sample_weight, values)
            self._add(tf.reduce_sum(values * weights), tf.reduce_sum(weights))


class Accuracy(Mean):
    """How often the predicted class is the label."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        hits = tf.equal(as_float(y_true), as_float(y_pred))
        super().update_state(hits, sample_weight)


class BinaryAccuracy(Mean):
    """How often "above the threshold" is the label, class by class where there are several."""

    def __init__(self, name: str, threshold: float = 0.5) -> None:
        super().__init__(name)
        self.threshold = threshold

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        positive = as_float(tf.greater(y_pred, self.threshold))
        super().update_state(tf.equal(as_float(y_true), positive), sample_weight)


class AccuracyBaseline(HeadMetric):
    """The accuracy of always predicting the more frequent of two classes.

    It reads what the mean of the labels has summed up, and keeps nothing of its own.
    """

    def __init__(self, name: str, label_mean: Mean) -> None:
        self.name = name
        self._state = label_mean._state

    def update_state(self, *args: Any, **kwargs: Any) -> None:
        """Nothing to do: updating the mean of the labels updates this."""

    def reset_state(self) -> None:
        """Nothing to do: it starts anew with the mean of the labels."""

    def result(self) -> tf.Tensor:
        total, count = tf.unstack(self._state.read_value())
        return tf.math.divide_no_nan(tf.maximum(total, count - total), count)


class _OfPositives(_Ratio):
    """The share of true positives among some of the examples."""

    def __init__(self, name: str, threshold: float = 0.5) -> None:
        super().__init__(name)
        self.threshold = threshold

    def _update(self, y_true: Any, y_pred: Any, sample_weight: Any, *, among_labels: bool) -> None:
        positive = tf.greater(as_float(y_pred), self.threshold)
        labels = tf.not_equal(as_float(y_true), 0.0)
        hits, among = as_float(labels & positive), as_float(labels if among_labels else positive)
        if sample_weight is not None:
            weights = broadcast_weights(sample_weight, hits)
            hits, among = hits * weights, among * weights
        self._add(tf.reduce_sum(hits), tf.reduce_sum(among))


class Precision(_OfPositives):
    """Of what is predicted positive, the share that is."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self._update(y_true, y_pred, sample_weight, among_labels=False)


class Recall(_OfPositives):
    """Of what is positive, the share that is predicted so."""

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self._update(y_true, y_pred, sample_weight, among_labels=True)
