"""Two classes with the largest margin: a support vector machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimand.core.export_output import ExportOutput, PredictOutput
from estimand.core.handles import FeatureColumn
from estimand.heads import classes
from estimand.heads.keys import PredictionKeys, ServingKeys
from estimand.heads.logits import checked_logits
from estimand.heads.losses import SUM_OVER_BATCH_SIZE
from estimand.heads.single import wanted_keys
from estimand.heads.two_classes import TwoClassHead

_KEYS = (
    PredictionKeys.LOGITS,
    PredictionKeys.CLASS_IDS,
    PredictionKeys.CLASSES,
    PredictionKeys.ALL_CLASS_IDS,
    PredictionKeys.ALL_CLASSES,
)


class HingeHead(TwoClassHead):
    """One of two classes by hinge loss; on a linear model, a support vector machine.

    The loss of an example is max(0, 1 - margin), or its square with `squared`, where the margin
    is the logit, with its sign turned for class 0. Logits are no probabilities here, and none
    are predicted. The other half of a support vector machine, the penalty on large weights, is
    given as `regularization_losses`.

    Args:
      weight_column: name of the feature, or numeric column, that weighs examples.
      label_vocabulary: the words that labels are, in the order of the class numbers.
      loss_reduction: "sum_over_batch_size", which is the mean, or "sum".
      squared: whether the loss is the square of the hinge.
      name: suffix of metric and summary keys, and scope of the operations.

    >>> head = HingeHead()
    >>> float(head.loss(labels=[[1], [0]], logits=[[0.5], [-2.0]]))
    0.25
    """

    def __init__(
        self,
        weight_column: str | FeatureColumn | None = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        squared: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(weight_column, label_vocabulary, loss_reduction, None, name)
        self._squared = squared

    def predictions(self, logits: Any, keys: Sequence[str] | None = None) -> dict[str, tf.Tensor]:
        keys = wanted_keys(keys, _KEYS)
        logits = checked_logits(logits, self.logits_dimension)
        with tf.name_scope("predictions"):
            made = {PredictionKeys.LOGITS: logits} if PredictionKeys.LOGITS in keys else {}
            both = tf.concat([tf.zeros_like(logits), logits], axis=-1, name="two_class_logits")
            return {**made, **self._class_predictions(keys, logits, both)}

    def _losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        lacking = tf.nn.relu(1.0 - (2.0 * labels - 1.0) * logits)
        return tf.square(lacking) if self._squared else lacking

    def _export_outputs(self, predictions: dict[Any, tf.Tensor]) -> dict[str, ExportOutput]:
        margins = predictions[PredictionKeys.LOGITS]
        classified = classes.classification_output(
            tf.concat([-margins, margins], axis=-1), 2, self._vocabulary
        )
        return {
            ServingKeys.DEFAULT: classified,
            ServingKeys.CLASSIFY: classified,
            ServingKeys.PREDICT: PredictOutput(predictions),
        }
