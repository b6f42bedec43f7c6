"""Any number of classes at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tensorflow as tf

from estimand.core.errors import HeadError
from estimand.core.export_output import ExportOutput, PredictOutput
from estimand.core.handles import FeatureColumn
from estimand.heads import classes
from estimand.heads.base import LabelRange
from estimand.heads.keys import MetricKeys, PredictionKeys, ServingKeys
from estimand.heads.labels import checked_labels, checked_range, given_labels
from estimand.heads.logits import checked_logits
from estimand.heads.losses import SUM_OVER_BATCH_SIZE
from estimand.heads.metrics import AUC, Mean
from estimand.heads.single import Batch, LossFn, SingleHead, wanted_keys
from estimand.heads.vocabulary import LabelVocabulary

_KEYS = (PredictionKeys.LOGITS, PredictionKeys.PROBABILITIES, PredictionKeys.CLASSES)


class MultiLabelHead(SingleHead):
    """For every class, whether an example belongs to it, by sigmoid cross entropy.

    The loss of an example is the mean over classes. Labels are a dense indicator of the shape
    of logits, [D0, D1, ... DN, n_classes], or a SparseTensor of class ids, or of strings of
    `label_vocabulary`, in any number per example. `classes_for_class_based_metrics` adds
    metrics of single classes, given by id or by name.

    Args:
      n_classes: how many classes there are.
      weight_column: name of the feature, or numeric column, that weighs examples.
      thresholds: probabilities above which a class counts, for metrics at each of them.
      label_vocabulary: the words that labels are, in the order of the class numbers.
      loss_reduction: "sum_over_batch_size", which is the mean, or "sum".
      loss_fn: takes labels and logits, returns one loss per example; in place of the usual one.
      classes_for_class_based_metrics: classes, by id or name, that get metrics of their own.
      name: suffix of metric and summary keys, and scope of the operations.

    >>> head = MultiLabelHead(n_classes=2)
    >>> round(float(head.loss(labels=[[1, 0]], logits=[[0.0, 0.0]])), 4)
    0.6931
    """

    def __init__(
        self,
        n_classes: int,
        weight_column: str | FeatureColumn | None = None,
        thresholds: Iterable[float] | None = None,
        label_vocabulary: Sequence[str] | None = None,
        loss_reduction: str = SUM_OVER_BATCH_SIZE,
        loss_fn: LossFn | None = None,
        classes_for_class_based_metrics: Sequence[int] | Sequence[str] | None = None,
        name: str | None = None,
    ) -> None:
        if n_classes is None or n_classes < 2:
            raise HeadError(
                f"n_classes must be > 1 for multi-label classification. Given: {n_classes}"
            )
        self._n_classes = int(n_classes)
        self._thresholds = classes.checked_thresholds(
            thresholds, "thresholds must be in (0, 1) range. Given: {wrong}"
        )
        self._vocabulary = _checked_vocabulary(label_vocabulary, self._n_classes)
        super().__init__(weight_column, loss_reduction, loss_fn, name)
        self._single_classes = self._class_ids(classes_for_class_based_metrics)

    @property
    def logits_dimension(self) -> int:
        return self._n_classes

    @property
    def label_vocabulary(self) -> tuple[str, ...] | None:
        return self._vocabulary.words if self._vocabulary else None

    @property
    def label_range(self) -> LabelRange | None:
        """Of dense labels; sparse ones are class ids."""
        return None if self._vocabulary else (0, 1)

    def predictions(self, logits: Any, keys: Sequence[str] | None = None) -> dict[str, tf.Tensor]:
        keys = wanted_keys(keys, _KEYS)
        logits = checked_logits(logits, self.logits_dimension)
        made = {}
        with tf.name_scope("predictions"):
            if PredictionKeys.LOGITS in keys:
                made[PredictionKeys.LOGITS] = logits
            if PredictionKeys.PROBABILITIES in keys:
                made[PredictionKeys.PROBABILITIES] = tf.sigmoid(
                    logits, name=PredictionKeys.PROBABILITIES
                )
            if PredictionKeys.CLASSES in keys:
                made[PredictionKeys.CLASSES] = classes.all_classes(
                    logits, self._n_classes, self._vocabulary
                )
        return made

    def _usable_labels(self, labels: Any, logits: tf.Tensor) -> tf.Tensor:
        labels = given_labels(labels)
        if isinstance(labels, tf.SparseTensor):
            indicator = self._indicator(labels)
        elif labels.dtype == tf.string:
            raise HeadError(
                "String labels must be a SparseTensor, as many as there are per example. Given: "
                f"a dense Tensor of shape {labels.shape}. Use tf.sparse.from_dense(labels), which "
                "leaves out empty strings."
            )
        else:
            number = tf.cast(labels, tf.int64) if labels.dtype == tf.bool else labels
            indicator = checked_range(
                number, 2, "labels must be an integer indicator Tensor with values in [0, 1]"
            )
        return tf.cast(checked_labels(indicator, logits, self._n_classes), tf.float32)

    def _indicator(self, labels: tf.SparseTensor) -> tf.Tensor:
        if labels.dtype == tf.string:
            if self._vocabulary is None:
                raise HeadError(
                    "Labels are strings, but there is no label_vocabulary. Pass the class names in "
                    "order, label_vocabulary=[...]."
                )
            ids = self._vocabulary.ids(labels.values, one_per_row=False)
        else:
            if not labels.dtype.is_integer:
                raise HeadError(f"Labels dtype should be integer. Instead got {labels.dtype}.")
            n_classes = self._n_classes
            message = f"labels must be an integer SparseTensor with values in [0, {n_classes})"
            ids = checked_range(labels.values, n_classes, message)
        sparse = tf.SparseTensor(labels.indices, tf.cast(ids, tf.int64), labels.dense_shape)
        indicator = tf.sparse.to_indicator(sparse, self._n_classes)
        indicator.set_shape(labels.shape[:-1].concatenate([self._n_classes]))
        return tf.cast(indicator, tf.int64)

    def _losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        each = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
        return tf.reduce_mean(each, axis=-1, keepdims=True)

    def _metrics(self) -> dict[str, Any]:
        made: dict[str, Any] = {
            MetricKeys.AUC: AUC(MetricKeys.AUC),
            MetricKeys.AUC_PR: AUC(MetricKeys.AUC_PR, curve="PR"),
            **classes.threshold_metrics(self._thresholds),
        }
        for class_id in self._single_classes:
            probability_mean, auc, auc_pr = self._class_keys(class_id)
            made[probability_mean] = Mean(probability_mean)
            made[auc] = AUC(auc)
            made[auc_pr] = AUC(auc_pr, curve="PR")
        return made

    def _update_metrics(self, update: Callable[..., None], batch: Batch) -> None:
        probabilities = tf.sigmoid(batch.logits)
        for key in (MetricKeys.AUC, MetricKeys.AUC_PR):
            update(key, batch.labels, probabilities)
        classes.update_threshold_metrics(update, self._thresholds, batch.labels, probabilities)
        for class_id in self._single_classes:
            probability_mean, auc, auc_pr = self._class_keys(class_id)
            of_class = probabilities[..., class_id : class_id + 1]
            labels = batch.labels[..., class_id : class_id + 1]
            update(probability_mean, of_class)
            update(auc, labels, of_class)
            update(auc_pr, labels, of_class)

    def _class_keys(self, class_id: int) -> tuple[str, str, str]:
        if self._vocabulary is None:
            keys = (
                MetricKeys.PROBABILITY_MEAN_AT_CLASS,
                MetricKeys.AUC_AT_CLASS,
                MetricKeys.AUC_PR_AT_CLASS,
            )
            return keys[0] % class_id, keys[1] % class_id, keys[2] % class_id
        name = self._vocabulary.words[class_id]
        return (
            MetricKeys.PROBABILITY_MEAN_AT_NAME % name,
            MetricKeys.AUC_AT_NAME % name,
            MetricKeys.AUC_PR_AT_NAME % name,
        )

    def _class_ids(self, given: Sequence[Any] | None) -> tuple[int, ...]:
        ids = []
        for each in given or ():
            if isinstance(each, str):
                ids.append(self._class_id_of(each))
            elif not 0 <= each < self._n_classes:
                raise HeadError(
                    "All classes_for_class_based_metrics must be in range "
                    f"[0, {self._n_classes - 1}]. Given: {each}"
                )
            else:
                ids.append(int(each))
        return tuple(ids)

    def _class_id_of(self, name: str) -> int:
        if self._vocabulary is None:
            raise HeadError(
                "label_vocabulary must be provided when classes_for_class_based_metrics are "
                "strings."
            )
        if name not in self._vocabulary.words:
            raise HeadError(
                f"classes_for_class_based_metrics: {name!r} is not in list, which is to say in "
                f"label_vocabulary {list(self._vocabulary.words)}."
            )
        return self._vocabulary.words.index(name)

    def _export_outputs(self, predictions: dict[Any, tf.Tensor]) -> dict[str, ExportOutput]:
        classified = classes.classification_output(
            predictions[PredictionKeys.PROBABILITIES], self._n_classes, self._vocabulary
        )
        return {
            ServingKeys.DEFAULT: classified,
            ServingKeys.CLASSIFY: classified,
            ServingKeys.PREDICT: PredictOutput(predictions),
        }


def _checked_vocabulary(words: Any, n_classes: int) -> LabelVocabulary | None:
    if words is None:
        return None
    if not isinstance(words, (list, tuple)):
        raise HeadError(f"label_vocabulary must be a list or tuple. Given type: {type(words)}")
    if len(words) != n_classes:
        raise HeadError(
            f"Length of label_vocabulary must be n_classes ({n_classes}). Given: {len(words)}"
        )
    return LabelVocabulary([str(word) for word in words])
