"""Two classes, with probabilities."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from estimand.core.export_output import ExportOutput, PredictOutput, RegressionOutput
from estimand.core.handles import FeatureColumn
from estimand.heads import classes
from estimand.heads.keys import MetricKeys, PredictionKeys, ServingKeys
from estimand.heads.logits import checked_logits
from estimand.heads.losses import SUM_OVER_BATCH_SIZE
from estimand.heads.metrics import Mean
from estimand.heads.single import Batch, LossFn, wanted_keys
from estimand.heads.two_classes import TwoClassHead

_KEYS = (
    PredictionKeys.LOGITS,
    PredictionKeys.LOGISTIC,
    PredictionKeys.PROBABILITIES,
    PredictionKeys.CLASS_IDS,
    PredictionKeys.CLASSES,
    PredictionKeys.ALL_CLASS_IDS,
    PredictionKeys.ALL_CLASSES,
)


class BinaryClassHead(TwoClassHead):
    """One of two classes, by sigmoid cross entropy.

    Logits are [D0, D1, ... DN, 1], labels and weights the same or without the last dimension.
    Labels are numbers in [0, 1], or strings if `label_vocabulary` names the two classes. For
    each of `thresholds` accuracy, precision and recall are evaluated. `loss_fn(labels, logits)`
    takes the place of the loss; it returns [D0, D1, ... DN, 1].

    Args:
      weight_column: name of the feature, or numeric column, that weighs examples.
      thresholds: probabilities at which accuracy, precision and recall are evaluated as well.
      label_vocabulary: the words that labels are, in the order of the class numbers.
      loss_reduction: "sum_over_batch_size", which is the mean, or "sum".
      loss_fn: takes labels and logits, returns one loss per example; in place of the usual one.
      name: suffix of metric and summary keys, and scope of the operations.

    >>> head = BinaryClassHead(label_vocabulary=["no", "yes"])
    >>> logits = tf.constant([[2.0], [-1.0]])
    >>> round(float(head.loss(tf.constant(["yes", "yes"]), logits)), 4)
    0.7201
    >>> head.predictions(logits, keys=["classes"])["classes"].numpy().tolist()
    [[b'yes'], [b'no']]
    """

    def __init__(
        self,
        weight_column: str | FeatureColumn | None = None,
        thresholds: Iterable[float] | None = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        loss_fn: LossFn | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(weight_column, label_vocabulary, loss_reduction, loss_fn, name)
        self._thresholds = classes.checked_thresholds(
            thresholds, "thresholds not in (0, 1): ({all},)."
        )

    def predictions(self, logits: Any, keys: Sequence[str] | None = None) -> dict[str, tf.Tensor]:
        keys = wanted_keys(keys, _KEYS)
        logits = checked_logits(logits, self.logits_dimension)
        made = {}
        with tf.name_scope("predictions"):
            if PredictionKeys.LOGITS in keys:
                made[PredictionKeys.LOGITS] = logits
            if PredictionKeys.LOGISTIC in keys:
                made[PredictionKeys.LOGISTIC] = tf.sigmoid(logits, name=PredictionKeys.LOGISTIC)
            both = tf.concat([tf.zeros_like(logits), logits], axis=-1, name="two_class_logits")
            if PredictionKeys.PROBABILITIES in keys:
                made[PredictionKeys.PROBABILITIES] = tf.nn.softmax(
                    both, name=PredictionKeys.PROBABILITIES
                )
            made.update(self._class_predictions(keys, logits, both))
        return made

    def _losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)

    def _metrics(self) -> dict[str, Any]:
        return {
            **super()._metrics(),
            MetricKeys.PREDICTION_MEAN: Mean(MetricKeys.PREDICTION_MEAN),
            **classes.threshold_metrics(self._thresholds),
        }

    def _update_metrics(self, update: Callable[..., None], batch: Batch) -> None:
        super()._update_metrics(update, batch)
        scores = tf.sigmoid(batch.logits)
        update(MetricKeys.PREDICTION_MEAN, scores)
        classes.update_threshold_metrics(update, self._thresholds, batch.labels, scores)

    def _export_outputs(self, predictions: dict[Any, tf.Tensor]) -> dict[str, ExportOutput]:
        classified = classes.classification_output(
            predictions[PredictionKeys.PROBABILITIES], 2, self._vocabulary
        )
        return {
            ServingKeys.DEFAULT: classified,
            ServingKeys.CLASSIFY: classified,
            ServingKeys.REGRESS: RegressionOutput(predictions[PredictionKeys.LOGISTIC]),
            ServingKeys.PREDICT: PredictOutput(predictions),
        }
