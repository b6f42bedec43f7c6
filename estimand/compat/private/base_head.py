"""Helpers of `tensorflow_estimator.python.estimator.head.base_head`, for heads in the wild."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimand.compat.private.canned_heads import _create_eval_metrics_tuple
from estimand.core.errors import HeadError
from estimand.heads import classes, losses, sequential, training
from estimand.heads import labels as label_checks
from estimand.heads.keys import ServingKeys
from estimand.heads.logits import checked_logits
from estimand.heads.vocabulary import vocabulary_or_none
from estimand.heads.weights import weights_for

DEFAULT_SERVING_KEY = ServingKeys.DEFAULT
CLASSIFY_SERVING_KEY = ServingKeys.CLASSIFY
REGRESS_SERVING_KEY = ServingKeys.REGRESS
PREDICT_SERVING_KEY = ServingKeys.PREDICT

create_eval_metrics_tuple = _create_eval_metrics_tuple


def check_dense_labels_match_logits_and_reshape(
    labels: Any,
    logits: Any,
    expected_labels_dimension: int,
) -> tf.Tensor:
    given = label_checks.given_labels(labels)
    return label_checks.checked_labels(given, logits, expected_labels_dimension)


def get_weights_and_check_match_logits(
    features: Any, weight_column: Any, logits: Any, allow_per_logit_weights: bool = False
) -> Any:
    weights = weights_for(features, weight_column, logits, per_logit=allow_per_logit_weights)
    return 1.0 if weights is None else weights


def check_logits_final_dim(logits: Any, expected_logits_dimension: int) -> tf.Tensor:
    return checked_logits(logits, expected_logits_dimension)


def validate_loss_fn_args(loss_fn: Callable[..., Any] | None) -> None:
    losses.check_loss_fn(loss_fn)


def validate_loss_reduction(loss_reduction: Any) -> None:
    losses.check_reduction(loss_reduction)


def validate_update_ops(update_ops: Any = None) -> None:
    training._check_list("update_ops", update_ops)


def validate_trainable_variables(trainable_variables: Any = None) -> None:
    if trainable_variables is None:
        raise HeadError(
            "trainable_variables cannot be None. Given None. Pass the variables to train, for "
            "example tf.compat.v1.trainable_variables()."
        )
    training._check_list("trainable_variables", trainable_variables)


def validate_v2_optimizer(optimizer: Any) -> None:
    training._check_optimizer(optimizer)


def validate_n_classes(n_classes: Any) -> int:
    """The number of classes, checked to be more than two."""
    count = int(tf.convert_to_tensor(n_classes))
    if count <= 2:
        raise HeadError(f"n_classes must be > 2: {count}. For two classes use BinaryClassHead.")
    return count


def call_loss_fn(
    loss_fn: Callable[..., Any],
    labels: Any,
    logits: Any,
    features: Any,
    expected_loss_dim: int = 1,
) -> tf.Tensor:
    return losses.call_loss_fn(loss_fn, labels, logits, features, "none", expected_loss_dim)


def check_prediction_keys(pred_keys: Sequence[str], valid_keys: Sequence[str]) -> None:
    for key in pred_keys:
        if key not in valid_keys:
            raise HeadError(
                f"Prediction key must be in PredictionKeys, given: {key}."
                f"Valid prediction keys include {valid_keys}."
            )


def all_class_ids(logits: tf.Tensor, n_classes: int) -> tf.Tensor:
    return classes.all_class_ids(logits, n_classes)


def all_classes(logits: tf.Tensor, n_classes: int, label_vocabulary: Any = None) -> tf.Tensor:
    return classes.all_classes(logits, n_classes, vocabulary_or_none(label_vocabulary))


def classification_output(scores: Any, n_classes: int, label_vocabulary: Any = None) -> Any:
    return classes.classification_output(scores, n_classes, vocabulary_or_none(label_vocabulary))


def check_label_range(labels: tf.Tensor, n_classes: int, message: str | None = None) -> tf.Tensor:
    return label_checks.checked_range(labels, n_classes, message)


def update_metric_with_broadcast_weights(eval_metric: Any, values: Any, weights: Any) -> None:
    values = tf.cast(values, tf.float32)
    if weights is not None:
        weights = tf.broadcast_to(tf.cast(weights, tf.float32), tf.shape(values))
    eval_metric.update_state(values, sample_weight=weights)


def create_estimator_spec_train_op(
    head_name: str | None,
    optimizer: Any = None,
    trainable_variables: Sequence[Any] | None = None,
    train_op_fn: Callable[[Any], Any] | None = None,
    update_ops: Sequence[Any] | None = None,
    regularized_training_loss: Any = None,
    loss_reduction: str = losses.SUM_OVER_BATCH_SIZE,
) -> Any:
    with tf.name_scope(head_name or "head"):
        return training.make_train_op(
            regularized_training_loss,
            loss_reduction,
            optimizer=optimizer,
            trainable_variables=trainable_variables,
            train_op_fn=train_op_fn,
            update_ops=update_ops,
        )


def create_estimator_spec_summary(
    regularized_training_loss: Any,
    regularization_losses: Sequence[Any] | None = None,
    summary_key_fn: Callable[[str], str] | None = None,
) -> None:
    training.summarise(regularized_training_loss, regularization_losses, summary_key_fn or str)


def _flatten_tensor(sequence_tensor: Any, sequence_mask: Any, expected_length: Any) -> tf.Tensor:
    """The steps of padded sequences one after the other, of which there have to be so many."""
    mask = tf.cast(tf.convert_to_tensor(sequence_mask), tf.bool)
    return sequential._steps_of(sequence_tensor, mask, tf.cast(expected_length, tf.int32))
