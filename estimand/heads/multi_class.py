"""One of three or more classes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimand.core.errors import HeadError
from estimand.core.export_output import ExportOutput, PredictOutput
from estimand.core.handles import FeatureColumn
from estimand.heads import classes
from estimand.heads.base import LabelRange
from estimand.heads.keys import MetricKeys, PredictionKeys, ServingKeys
from estimand.heads.labels import checked_labels, checked_range
from estimand.heads.logits import checked_logits
from estimand.heads.losses import SUM_OVER_BATCH_SIZE
from estimand.heads.metrics import Accuracy
from estimand.heads.single import Batch, LossFn, SingleHead, wanted_keys
from estimand.heads.vocabulary import vocabulary_or_none

_KEYS = (
    PredictionKeys.LOGITS,
    PredictionKeys.PROBABILITIES,
    PredictionKeys.CLASS_IDS,
    PredictionKeys.CLASSES,
    PredictionKeys.ALL_CLASS_IDS,
    PredictionKeys.ALL_CLASSES,
)


class MultiClassHead(SingleHead):
    """One of `n_classes` > 2 classes, by softmax cross entropy.

    Logits are [D0, D1, ... DN, n_classes]; labels are integers from 0 to n_classes - 1, or
    strings of `label_vocabulary`, of shape [D0, D1, ... DN] or [D0, D1, ... DN, 1].

    Args:
      n_classes: how many classes there are.
      weight_column: name of the feature, or numeric column, that weighs examples.
      label_vocabulary: the words that labels are, in the order of the class numbers.
      loss_reduction: "sum_over_batch_size", which is the mean, or "sum".
      loss_fn: takes labels and logits, returns one loss per example; in place of the usual one.
      name: suffix of metric and summary keys, and scope of the operations.

    >>> head = MultiClassHead(n_classes=3)
    >>> round(float(head.loss(labels=[[2]], logits=[[0.0, 0.0, 1.0]])), 4)
    0.5514
    """

    def __init__(
        self,
        n_classes: int,
        weight_column: str | FeatureColumn | None = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        loss_fn: LossFn | None = None,
        name: str | None = None,
    ) -> None:
        self._n_classes = _checked_n_classes(n_classes)
        symbolic = tf.is_tensor(n_classes) and not tf.executing_eagerly()
        self._logits_dimension = n_classes if symbolic else self._n_classes
        self._vocabulary = vocabulary_or_none(label_vocabulary)
        if self._vocabulary is not None and len(self._vocabulary) != self._n_classes:
            raise HeadError(
                '"label_vocabulary" does not have "n_classes" items. '
                f"len(label_vocabulary)={len(self._vocabulary)}, n_classes={n_classes}, "
                f"label_vocabulary={label_vocabulary}"
            )
        super().__init__(weight_column, loss_reduction, loss_fn, name)

    @property
    def logits_dimension(self) -> int:
        return self._logits_dimension

    @property
    def label_vocabulary(self) -> tuple[str, ...] | None:
        return self._vocabulary.words if self._vocabulary else None

    @property
    def label_range(self) -> LabelRange | None:
        return None if self._vocabulary else (0, self._n_classes - 1)

    def predictions(self, logits: Any, keys: Sequence[str] | None = None) -> dict[str, tf.Tensor]:
        keys = wanted_keys(keys, _KEYS)
        logits = checked_logits(logits, self._n_classes)
        made = {}
        with tf.name_scope("predictions"):
            if PredictionKeys.LOGITS in keys:
                made[PredictionKeys.LOGITS] = logits
            if PredictionKeys.PROBABILITIES in keys:
                made[PredictionKeys.PROBABILITIES] = tf.nn.softmax(
                    logits, name=PredictionKeys.PROBABILITIES
                )
            if PredictionKeys.CLASS_IDS in keys or PredictionKeys.CLASSES in keys:
                class_ids = tf.argmax(logits, axis=-1, name=PredictionKeys.CLASS_IDS)
                class_ids = tf.expand_dims(class_ids, -1)
                if PredictionKeys.CLASS_IDS in keys:
                    made[PredictionKeys.CLASS_IDS] = class_ids
                if PredictionKeys.CLASSES in keys:
                    made[PredictionKeys.CLASSES] = classes.names_of(class_ids, self._vocabulary)
            if PredictionKeys.ALL_CLASS_IDS in keys:
                made[PredictionKeys.ALL_CLASS_IDS] = classes.all_class_ids(logits, self._n_classes)
            if PredictionKeys.ALL_CLASSES in keys:
                made[PredictionKeys.ALL_CLASSES] = classes.all_classes(
                    logits, self._n_classes, self._vocabulary
                )
        return made

    def _usable_labels(self, labels: Any, logits: tf.Tensor) -> tf.Tensor:
        labels = checked_labels(labels, logits, 1)
        if self._vocabulary is not None:
            return self._vocabulary.ids(labels)
        if not labels.dtype.is_integer:
            hint = (
                "Pass label_vocabulary=[...] for string labels."
                if labels.dtype == tf.string
                else "Use tf.cast(labels, tf.int64) in input_fn."
            )
            raise HeadError(f"Labels dtype should be integer. Instead got {labels.dtype}. {hint}")
        if labels.dtype not in (tf.int32, tf.int64):
            labels = tf.cast(labels, tf.int64)
        return checked_range(labels, self._n_classes, self._label_range_message)

    def _losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        each = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.squeeze(labels, -1), logits=logits
        )
        return tf.expand_dims(each, -1)

    def _metrics(self) -> dict[str, Any]:
        return {MetricKeys.ACCURACY: Accuracy(MetricKeys.ACCURACY)}

    def _update_metrics(self, update: Callable[..., None], batch: Batch) -> None:
        predicted = tf.expand_dims(tf.argmax(batch.logits, axis=-1), -1)
        update(MetricKeys.ACCURACY, batch.labels, predicted)

    def _export_outputs(self, predictions: dict[Any, tf.Tensor]) -> dict[str, ExportOutput]:
        classified = classes.classification_output(
            predictions[PredictionKeys.PROBABILITIES], self._n_classes, self._vocabulary
        )
        return {
            ServingKeys.DEFAULT: classified,
            ServingKeys.CLASSIFY: classified,
            ServingKeys.PREDICT: PredictOutput(predictions),
        }


def _checked_n_classes(n_classes: Any) -> int:
    if n_classes is None:
        raise HeadError("n_classes cannot be None")
    try:
        symbolic = tf.is_tensor(n_classes) and not tf.executing_eagerly()
        number = operator.index(tf.get_static_value(n_classes) if symbolic else n_classes)
    except TypeError:
        raise HeadError(
            f"n_classes must be an integer, given: {n_classes!r} of {type(n_classes)}."
        ) from None
    if number <= 2:
        raise HeadError(f"n_classes must be > 2: {number}. For two classes use BinaryClassHead.")
    return number
