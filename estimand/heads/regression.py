"""Real numbers: plain, Poisson and logistic regression."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimand.core.errors import HeadError
from estimand.core.export_output import ExportOutput, PredictOutput, RegressionOutput
from estimand.core.handles import FeatureColumn
from estimand.heads.base import LabelRange
from estimand.heads.keys import MetricKeys, PredictionKeys, ServingKeys
from estimand.heads.labels import checked_labels, checked_range
from estimand.heads.logits import checked_logits
from estimand.heads.losses import SUM_OVER_BATCH_SIZE
from estimand.heads.metrics import Mean
from estimand.heads.single import Batch, LossFn, SingleHead, wanted_keys


class RegressionHead(SingleHead):
    """`label_dimension` numbers per example, by squared error.

    Logits and labels are [D0, D1, ... DN, label_dimension]; weights may have that shape, too.
    `inverse_link_fn` turns logits into predictions. `loss_fn(labels, logits)` takes the place
    of the squared error; it returns one loss per label.

    Args:
      label_dimension: how many numbers a label has.
      weight_column: name of the feature, or numeric column, that weighs examples.
      loss_reduction: "sum_over_batch_size", which is the mean, or "sum".
      loss_fn: takes labels and logits, returns one loss per example; in place of the usual one.
      inverse_link_fn: turns logits into predictions.
      name: suffix of metric and summary keys, and scope of the operations.

    >>> head = RegressionHead()
    >>> float(head.loss(labels=[[1.0], [3.0]], logits=[[2.0], [0.0]]))
    5.0
    """

    _weights_per_logit = True

    def __init__(
        self,
        label_dimension: int = 1,
        weight_column: str | FeatureColumn | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        loss_fn: LossFn | None = None,
        inverse_link_fn: Callable[[tf.Tensor], tf.Tensor] | None = None,
        name: str | None = None,
    ) -> None:
        if label_dimension < 1:
            raise HeadError(f"Invalid label_dimension {label_dimension}. It must be 1 or more.")
        super().__init__(weight_column, loss_reduction, loss_fn, name)
        self._loss_dimension = int(label_dimension)
        self._inverse_link_fn = inverse_link_fn

    @property
    def logits_dimension(self) -> int:
        return self._loss_dimension

    def predictions(self, logits: Any, keys: Sequence[str] | None = None) -> dict[str, tf.Tensor]:
        logits = checked_logits(logits, self.logits_dimension)
        with tf.name_scope("predictions"):
            made = {PredictionKeys.PREDICTIONS: self._predicted(logits)}
            if self._inverse_link_fn is not None:
                made[PredictionKeys.LOGITS] = logits
        keys = wanted_keys(keys, list(made))
        return {key: value for key, value in made.items() if key in keys}

    def _predicted(self, logits: tf.Tensor) -> tf.Tensor:
        return logits if self._inverse_link_fn is None else self._inverse_link_fn(logits)

    def _usable_labels(self, labels: Any, logits: tf.Tensor) -> tf.Tensor:
        labels = checked_labels(labels, logits, self.logits_dimension)
        if labels.dtype == tf.string:
            raise HeadError(
                "Labels dtype should be numeric. Instead got strings. Use tf.strings.to_number in "
                "input_fn."
            )
        return tf.cast(labels, tf.float32)

    def _losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return tf.math.squared_difference(logits, labels)

    def _metrics(self) -> dict[str, Any]:
        return {
            MetricKeys.PREDICTION_MEAN: Mean(MetricKeys.PREDICTION_MEAN),
            MetricKeys.LABEL_MEAN: Mean(MetricKeys.LABEL_MEAN),
        }

    def _update_metrics(self, update: Callable[..., None], batch: Batch) -> None:
        update(MetricKeys.LABEL_MEAN, batch.labels)
        update(MetricKeys.PREDICTION_MEAN, self._predicted(batch.logits))

    def _export_outputs(self, predictions: dict[Any, tf.Tensor]) -> dict[str, ExportOutput]:
        regression = RegressionOutput(predictions[PredictionKeys.PREDICTIONS])
        return {
            ServingKeys.DEFAULT: regression,
            ServingKeys.REGRESS: regression,
            ServingKeys.PREDICT: PredictOutput(predictions),
        }


class PoissonRegressionHead(RegressionHead):
    """Counts: predictions are exp(logits), the loss is minus the log likelihood of Poisson.

    `compute_full_loss` includes Stirling's approximation of log(label!), which no gradient
    depends on.

    Args:
      label_dimension: how many numbers a label has.
      weight_column: name of the feature, or numeric column, that weighs examples.
      loss_reduction: "sum_over_batch_size", which is the mean, or "sum".
      compute_full_loss: whether the loss includes log(label!).
      name: suffix of metric and summary keys, and scope of the operations.

    >>> head = PoissonRegressionHead(compute_full_loss=False)
    >>> float(head.loss(labels=[[2.0]], logits=[[0.0]]))
    1.0
    """

    def __init__(
        self,
        label_dimension: int = 1,
        weight_column: str | FeatureColumn | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        compute_full_loss: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__(
            label_dimension, weight_column, loss_reduction, inverse_link_fn=tf.exp, name=name
        )
        self._compute_full_loss = compute_full_loss

    @property
    def label_range(self) -> LabelRange:
        return (0, math.inf)

    def _losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return tf.nn.log_poisson_loss(labels, logits, compute_full_loss=self._compute_full_loss)


class LogisticRegressionHead(RegressionHead):
    """A share between 0 and 1: predictions are sigmoid(logits), the loss is cross entropy.

    The same loss as of `BinaryClassHead`, without its classes: labels may be any number in
    [0, 1], and predictions are one number.

    Args:
      weight_column: name of the feature, or numeric column, that weighs examples.
      loss_reduction: "sum_over_batch_size", which is the mean, or "sum".
      name: suffix of metric and summary keys, and scope of the operations.

    >>> head = LogisticRegressionHead()
    >>> round(float(head.loss(labels=[[0.5]], logits=[[0.0]])), 4)
    0.6931
    """

    def __init__(
        self,
        weight_column: str | FeatureColumn | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        name: str | None = None,
    ) -> None:
        super().__init__(1, weight_column, loss_reduction, inverse_link_fn=tf.sigmoid, name=name)

    @property
    def label_range(self) -> LabelRange:
        return (0, 1)

    def _usable_labels(self, labels: Any, logits: tf.Tensor) -> tf.Tensor:
        usable = super()._usable_labels(labels, logits)
        return checked_range(usable, 2, "Labels must be in range [0, 1]")

    def _losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
