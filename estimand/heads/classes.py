"""What heads that predict classes have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from estimand.core.errors import HeadError
from estimand.core.export_output import ClassificationOutput
from estimand.heads.keys import MetricKeys
from estimand.heads.metrics import BinaryAccuracy, Precision, Recall
from estimand.heads.vocabulary import LabelVocabulary, class_names


def all_class_ids(logits: tf.Tensor, n_classes: int) -> tf.Tensor:
    """[0, 1, ..., n_classes - 1] for every example."""
    return tf.tile(tf.expand_dims(tf.range(n_classes), 0), [tf.shape(logits)[0], 1])


def all_classes(logits: tf.Tensor, n_classes: int, vocabulary: LabelVocabulary | None) -> tf.Tensor:
    """The names of all classes for every example."""
    return tf.tile(tf.constant([class_names(vocabulary, n_classes)]), [tf.shape(logits)[0], 1])


def names_of(class_ids: tf.Tensor, vocabulary: LabelVocabulary | None) -> tf.Tensor:
    """The names of predicted classes."""
    if vocabulary is None:
        return tf.strings.as_string(class_ids, name="str_classes")
    return vocabulary.names(class_ids)


def classification_output(
    scores: tf.Tensor, n_classes: int, vocabulary: LabelVocabulary | None
) -> ClassificationOutput:
    return ClassificationOutput(scores=scores, classes=all_classes(scores, n_classes, vocabulary))


def checked_thresholds(thresholds: Iterable[float] | None, complaint: str) -> tuple[float, ...]:
    """`complaint` has a place for the thresholds, and one for the one that is wrong."""
    given = tuple(thresholds) if thresholds else ()
    for threshold in given:
        if not 0.0 < threshold < 1.0:
            raise HeadError(complaint.format(all=given, wrong=threshold))
    return given


def threshold_metrics(thresholds: Iterable[float]) -> dict[str, Any]:
    """Accuracy, precision and recall at each threshold."""
    made: dict[str, Any] = {}
    for threshold in thresholds:
        for template, kind in _AT_THRESHOLD.items():
            key = template % threshold
            made[key] = kind(key, threshold)
    return made


def update_threshold_metrics(
    update: Callable[..., None], thresholds: Iterable[float], labels: tf.Tensor, scores: tf.Tensor
) -> None:
    for threshold in thresholds:
        for template in _AT_THRESHOLD:
            update(template % threshold, labels, scores)


_AT_THRESHOLD: dict[str, Any] = {
    MetricKeys.ACCURACY_AT_THRESHOLD: BinaryAccuracy,
    MetricKeys.PRECISION_AT_THRESHOLD: Precision,
    MetricKeys.RECALL_AT_THRESHOLD: Recall,
}
