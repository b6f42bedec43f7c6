"""From a loss per example to the number that is minimized."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimand.core.errors import HeadError
from estimand.heads.checks import (
    after,
    of_unknown_shape,
    refuse,
    require,
    same_shape,
    shape_to_tell,
)

SUM_OVER_BATCH_SIZE = "sum_over_batch_size"
SUM = "sum"
_MEAN_OF_WEIGHTED = "weighted_mean"
_OVER_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"

# What Keras 2, Keras 3 and tf.compat.v1.losses.Reduction call each way of summing up.
_WAYS = {
    "auto": SUM_OVER_BATCH_SIZE,
    "mean": SUM_OVER_BATCH_SIZE,
    "sum_over_batch_size": SUM_OVER_BATCH_SIZE,
    "weighted_sum_over_batch_size": SUM_OVER_BATCH_SIZE,
    "sum": SUM,
    "weighted_sum": SUM,
    "weighted_mean": _MEAN_OF_WEIGHTED,
    "mean_with_sample_weight": _MEAN_OF_WEIGHTED,
    "weighted_sum_by_nonzero_weights": _OVER_NONZERO_WEIGHTS,
}
UNREDUCED = "none"
_OPTIONAL_ARGUMENTS = ("features", "loss_reduction")


def check_reduction(reduction: Any) -> str:
    """The name of a way to sum up losses, as a plain string."""
    name = getattr(reduction, "value", reduction)
    if name not in _WAYS:
        raise HeadError(
            f"Invalid loss_reduction: {reduction}. See `tf.losses.Reduction` for valid options. "
            f"A head needs one number per batch: use one of {', '.join(map(repr, _WAYS))}."
        )
    return name


def over_batch(reduction: str) -> str:
    """What the loss is over the batch of a replica, as `est.minimize` wants to know."""
    return "sum" if _WAYS.get(reduction) == SUM else "mean"


def reduced_loss(losses: tf.Tensor, weights: tf.Tensor | None, reduction: str) -> tf.Tensor:
    """One number from the losses of a batch; each weighted loss for "none".

    >>> losses, weights = tf.constant([[1.0], [4.0]]), tf.constant([[3.0], [0.5]])
    >>> float(reduced_loss(losses, weights, "sum"))
    5.0
    >>> float(reduced_loss(losses, weights, "sum_over_batch_size"))
    2.5
    """
    with tf.name_scope("weighted_loss"):
        weighted = losses if weights is None else losses * weights
        if reduction == UNREDUCED:
            return weighted
        total = tf.reduce_sum(weighted)
        way = _WAYS[reduction]
        if way == SUM:
            return total
        if way == SUM_OVER_BATCH_SIZE or weights is None:
            # An empty batch, such as one of sequences that are all padding, has a loss of 0.
            return tf.math.divide_no_nan(total, tf.cast(tf.size(losses), total.dtype))
        each = tf.broadcast_to(weights, tf.shape(losses))
        if way == _OVER_NONZERO_WEIGHTS:
            each = tf.cast(tf.not_equal(each, 0.0), total.dtype)
        return tf.math.divide_no_nan(total, tf.reduce_sum(each))


def name_as_in_v1(
    loss: tf.Tensor, losses: tf.Tensor, weights: tf.Tensor | None, reduction: str
) -> None:
    """The names that hooks fetch: `head/weighted_loss/Sum` and `head/truediv`, its mean.

    A loss that is a mean itself is `head/weighted_loss/value`.
    """
    if reduction == UNREDUCED or tf.executing_eagerly():
        return
    is_sum = _WAYS.get(reduction) == SUM
    with tf.name_scope("weighted_loss"):
        tf.identity(loss, name="Sum" if is_sum else "value")
    if not is_sum:
        return
    each = tf.ones_like(losses) if weights is None else tf.broadcast_to(weights, tf.shape(losses))
    tf.truediv(loss, tf.reduce_sum(each), name="truediv")


def with_regularization(loss: tf.Tensor, losses: Sequence[Any] | None) -> tf.Tensor:
    regularization = regularization_loss(losses)
    return loss if regularization is None else loss + regularization


def regularization_loss(losses: Sequence[Any] | None) -> tf.Tensor | None:
    """The sum of what regularizers add; None when there are none."""
    if losses is None or len(losses) == 0:
        return None
    return tf.add_n([tf.cast(tf.convert_to_tensor(loss), tf.float32) for loss in losses])


def check_loss_fn(loss_fn: Callable[..., Any] | None) -> None:
    """A loss function takes labels and logits, and may take features and loss_reduction."""
    if loss_fn is None:
        return
    arguments = _arguments(loss_fn)
    for required in ("labels", "logits"):
        if required not in arguments:
            raise HeadError(
                f"loss_fn must contain argument: {required}. Given arguments: {tuple(arguments)}"
            )
    unexpected = [a for a in arguments if a not in ("labels", "logits", *_OPTIONAL_ARGUMENTS)]
    if unexpected:
        raise HeadError(
            f"loss_fn has unexpected args: {unexpected}. It may take labels, logits, features and "
            "loss_reduction; fix others with functools.partial."
        )


def call_loss_fn(
    loss_fn: Callable[..., Any],
    labels: tf.Tensor,
    logits: tf.Tensor,
    features: Any,
    reduction: str,
    dimension: int,
) -> tf.Tensor:
    """The losses that a user's function computes, one per example (and per `dimension`)."""
    arguments = _arguments(loss_fn)
    given: dict[str, Any] = {"labels": labels, "logits": logits}
    if "features" in arguments:
        given["features"] = features
    # One with a default is the function's own business: losses have to come back unreduced.
    if "loss_reduction" in arguments and arguments["loss_reduction"] is inspect.Parameter.empty:
        given["loss_reduction"] = reduction
    with tf.name_scope("call_loss_fn"):
        losses = tf.convert_to_tensor(loss_fn(**given))
        told = f"loss_fn must return Tensor of shape [D0, D1, ... DN, {dimension}]. "
        expected = logits.shape[:-1].concatenate([dimension]) if logits.shape.rank else logits.shape
        if not losses.shape.is_compatible_with(expected):
            shapes = shape_to_tell(logits), shape_to_tell(losses)
            refusal = refuse(told, "logits_shape: ", shapes[0], "loss_shape: ", shapes[1])
            return of_unknown_shape(after(refusal, losses))
        if losses.shape.is_fully_defined() and expected.is_fully_defined():
            return losses
        logits_shape, loss_shape = tf.shape(logits), tf.shape(losses)
        wanted = tf.concat([logits_shape[:-1], [dimension]], axis=0)
        checks = require(
            same_shape(loss_shape, wanted),
            told,
            "logits_shape: ",
            logits_shape,
            "loss_shape: ",
            loss_shape,
        )
        return after(checks, losses)


def _arguments(function: Callable[..., Any]) -> dict[str, Any]:
    """The names of a function's arguments with their defaults; those already bound are left out."""
    skip = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    bound = getattr(function, "keywords", None) or {}
    parameters = inspect.signature(function).parameters.values()
    return {p.name: p.default for p in parameters if p.kind not in skip and p.name not in bound}
