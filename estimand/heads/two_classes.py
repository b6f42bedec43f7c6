"""What the two heads for two classes share: their labels, and how a class is chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimand.core.errors import HeadError
from estimand.core.handles import FeatureColumn
from estimand.heads import classes
from estimand.heads.base import LabelRange
from estimand.heads.keys import MetricKeys, PredictionKeys
from estimand.heads.labels import checked_labels, checked_range
from estimand.heads.metrics import AUC, Accuracy, AccuracyBaseline, Mean, Precision, Recall
from estimand.heads.single import Batch, LossFn, SingleHead
from estimand.heads.vocabulary import vocabulary_or_none


class TwoClassHead(SingleHead):
    """One logit per example; class 1 where it is above 0."""

    _auc_rule = "interpolation"

    def __init__(
        self,
        weight_column: str | FeatureColumn | None,
        label_vocabulary: Sequence[str] | None,
        loss_reduction: str,
        loss_fn: LossFn | None,
        name: str | None,
    ) -> None:
        super().__init__(weight_column, loss_reduction, loss_fn, name)
        self._vocabulary = vocabulary_or_none(label_vocabulary)
        if self._vocabulary is not None and len(self._vocabulary) != 2:
            count = len(self._vocabulary)
            cure = f"Say that there are more: n_classes={count}, or est.MultiClassHead({count})."
            raise HeadError(
                f"label_vocabulary should name 2 classes, given: {list(self._vocabulary.words)}. "
                f"{cure if count > 2 else 'Name both.'}"
            )

    @property
    def logits_dimension(self) -> int:
        return 1

    @property
    def label_vocabulary(self) -> tuple[str, ...] | None:
        return self._vocabulary.words if self._vocabulary else None

    @property
    def label_range(self) -> LabelRange | None:
        return None if self._vocabulary else (0, 1)

    def _usable_labels(self, labels: Any, logits: tf.Tensor) -> tf.Tensor:
        labels = checked_labels(labels, logits, 1)
        if self._vocabulary is not None:
            return tf.cast(self._vocabulary.ids(labels), tf.float32)
        if labels.dtype == tf.string:
            raise HeadError(
                "Labels are strings, but there is no label_vocabulary. Pass the two class names in "
                "order, e.g. label_vocabulary=['no', 'yes']."
            )
        if not labels.dtype.is_integer:
            labels = tf.cast(labels, tf.float32)
        return tf.cast(checked_range(labels, 2, self._label_range_message), tf.float32)

    def _class_predictions(
        self, keys: Sequence[str], logits: tf.Tensor, two_class_logits: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        made = {}
        if PredictionKeys.CLASS_IDS in keys or PredictionKeys.CLASSES in keys:
            class_ids = tf.expand_dims(
                tf.argmax(two_class_logits, axis=-1, name=PredictionKeys.CLASS_IDS), -1
            )
            if PredictionKeys.CLASS_IDS in keys:
                made[PredictionKeys.CLASS_IDS] = class_ids
            if PredictionKeys.CLASSES in keys:
                made[PredictionKeys.CLASSES] = classes.names_of(class_ids, self._vocabulary)
        if PredictionKeys.ALL_CLASS_IDS in keys:
            made[PredictionKeys.ALL_CLASS_IDS] = classes.all_class_ids(logits, 2)
        if PredictionKeys.ALL_CLASSES in keys:
            made[PredictionKeys.ALL_CLASSES] = classes.all_classes(logits, 2, self._vocabulary)
        return made

    def _metrics(self) -> dict[str, Any]:
        label_mean = Mean(MetricKeys.LABEL_MEAN)
        return {
            MetricKeys.ACCURACY: Accuracy(MetricKeys.ACCURACY),
            MetricKeys.PRECISION: Precision(MetricKeys.PRECISION),
            MetricKeys.RECALL: Recall(MetricKeys.RECALL),
            MetricKeys.LABEL_MEAN: label_mean,
            MetricKeys.ACCURACY_BASELINE: AccuracyBaseline(
                MetricKeys.ACCURACY_BASELINE, label_mean
            ),
            MetricKeys.AUC: AUC(MetricKeys.AUC, rule=self._auc_rule),
            MetricKeys.AUC_PR: AUC(MetricKeys.AUC_PR, "PR", self._auc_rule),
        }

    def _update_metrics(self, update: Callable[..., None], batch: Batch) -> None:
        predicted = tf.cast(batch.logits > 0.0, tf.float32)  # the larger of (0, logit); 0 if equal
        for key in (MetricKeys.ACCURACY, MetricKeys.PRECISION, MetricKeys.RECALL):
            update(key, batch.labels, predicted)
        update(MetricKeys.LABEL_MEAN, batch.labels)
        scores = tf.sigmoid(batch.logits)
        for key in (MetricKeys.AUC, MetricKeys.AUC_PR):
            update(key, batch.labels, scores)
