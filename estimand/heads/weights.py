"""Example weights, out of the features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from estimand.core.errors import HeadError, HeadTypeError
from estimand.heads.checks import after, of_unknown_shape, refuse, require, shape_to_tell

_PER_EXAMPLE = "weights shape must be [D0, D1, ... DN] or [D0, D1, ... DN, 1]"
_PER_LOGIT = (
    "weights shape must be [D0, D1, ... DN], [D0, D1, ... DN, 1] or "
    "[D0, D1, ... DN, logits_dimension]"
)


def check_weight_column(column: Any) -> None:
    """A weight column is the name of a feature, or a numeric column."""
    if column is None or isinstance(column, str):
        return
    if not (hasattr(column, "key") and hasattr(column, "normalizer_fn")):
        raise HeadTypeError(
            "Weight column must be either a string or NumericColumn. "
            f"Given type: {type(column)}. Pass the name of the feature that holds the weights, or "
            "tf.feature_column.numeric_column('name', normalizer_fn=...)."
        )


def weights_for(
    features: Any, column: Any, logits: tf.Tensor, *, per_logit: bool = False
) -> tf.Tensor | None:
    """Weights that multiply losses of the shape of `logits`; None where all count alike.

    Weights may lack the last dimension; with `per_logit` they may have a value per logit.
    """
    if column is None:
        return None
    check_weight_column(column)
    with tf.name_scope("weights"):
        weights = _fetched(features, column)
        message = _PER_LOGIT if per_logit else _PER_EXAMPLE
        if weights.shape.rank is None or logits.shape.rank is None:
            return _shaped_at_run_time(weights, logits, message, per_logit)
        given = weights
        if weights.shape.rank == logits.shape.rank - 1:
            weights = tf.expand_dims(weights, -1)
        widths = (1, tf.compat.dimension_value(logits.shape[-1])) if per_logit else (1,)
        fits = weights.shape.rank == logits.shape.rank and (
            weights.shape[:-1].is_compatible_with(logits.shape[:-1])
            and tf.compat.dimension_value(weights.shape[-1]) in (*widths, None)
        )
        if not fits:
            refusal = refuse(
                f"{message}, ",
                "logits_shape: ",
                shape_to_tell(logits),
                "weights_shape: ",
                shape_to_tell(given),
                f"in feature {_key(column)!r}.",
            )
            return of_unknown_shape(after(refusal, given))
        return after(_same_batch(weights, logits, widths, message), weights)


def _fetched(features: Any, column: Any) -> tf.Tensor:
    key = _key(column)
    if not isinstance(features, Mapping) or key not in features:
        there_are = (
            f"features has: {', '.join(map(str, features)) or 'nothing'}"
            if isinstance(features, Mapping)
            else f"features is {type(features).__name__}, not a dict"
        )
        raise HeadError(
            f"Feature {key} is not in features dictionary. The head was made with "
            f"weight_column={key!r}, but {there_are}. Let input_fn return it among the features."
        )
    weights = features[key]
    if isinstance(weights, (tf.SparseTensor, tf.RaggedTensor)):
        raise HeadError(
            "The corresponding Tensor of numerical column must be a Tensor. "
            f"{type(weights).__name__} is not supported. key: {key}. Turn it into one in input_fn, "
            "with tf.sparse.to_dense or .to_tensor()."
        )
    weights = tf.convert_to_tensor(weights)
    if weights.shape.rank == 1:
        weights = tf.expand_dims(weights, -1)
    if getattr(column, "normalizer_fn", None) is not None:
        weights = column.normalizer_fn(weights)
    if not (weights.dtype.is_floating or weights.dtype.is_integer):
        raise HeadError(
            f"Weight column should be castable to float. Given dtype: {weights.dtype} "
            f"in feature {key!r}."
        )
    return tf.cast(weights, tf.float32, name="weights")


def _key(column: Any) -> str:
    return column if isinstance(column, str) else column.key


def _same_batch(
    weights: tf.Tensor, logits: tf.Tensor, widths: tuple[Any, ...], message: str
) -> list[tf.Operation]:
    if None not in weights.shape.as_list() and None not in logits.shape.as_list()[:-1]:
        return []
    weights_shape, logits_shape = tf.shape(weights), tf.shape(logits)
    same = tf.reduce_all(tf.equal(weights_shape[:-1], logits_shape[:-1]))
    if tf.compat.dimension_value(weights.shape[-1]) is None:
        same &= tf.reduce_any([tf.equal(weights_shape[-1], width) for width in widths])
    shapes = ("logits_shape: ", logits_shape, "weights_shape: ", weights_shape)
    return require(same, f"{message}, ", *shapes)


def _shaped_at_run_time(
    weights: tf.Tensor, logits: tf.Tensor, message: str, per_logit: bool
) -> tf.Tensor:
    """Weights of a rank no one knows yet: one per example, in whatever shape they come."""
    logits_shape = tf.shape(logits)
    examples, width = tf.reduce_prod(logits_shape[:-1]), tf.ones([], tf.int32)
    if per_logit:
        width = tf.where(tf.equal(tf.size(weights), examples), width, logits_shape[-1])
    shapes = ("logits_shape: ", logits_shape, "weights_shape: ", tf.shape(weights))
    checks = require(tf.equal(tf.size(weights), examples * width), f"{message}, ", *shapes)
    return tf.reshape(after(checks, weights), tf.concat([logits_shape[:-1], [width]], axis=0))
