"""`tf.contrib.layers`: regularizers."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from estimand.core.errors import ConfigError

v1 = tf.compat.v1
Regularizer = Callable[[Any], Any]


def l1_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """`scale` times the sum of absolute values.

    >>> float(l1_regularizer(0.1)(tf.constant([1.0, -2.0])))
    0.30000001192092896
    """
    return _scaled(scale, scope or "l1_regularizer", lambda w: tf.reduce_sum(tf.abs(w)))


def l2_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """`scale` times half the sum of squares.

    >>> float(l2_regularizer(0.1)(tf.constant([1.0, -2.0])))
    0.25
    """
    return _scaled(scale, scope or "l2_regularizer", tf.nn.l2_loss)


def l1_l2_regularizer(
    scale_l1: float = 1.0, scale_l2: float = 1.0, scope: str | None = None
) -> Regularizer:
    """Both."""
    scope = scope or "l1_l2_regularizer"
    return sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope)


def sum_regularizer(
    regularizer_list: Iterable[Regularizer | None], scope: str | None = None
) -> Regularizer | Any:
    """The sum of several; None if there is none."""
    chosen = [regularizer for regularizer in regularizer_list if regularizer is not None]
    if not chosen:
        return None

    def penalty(weights: Any) -> Any:
        with tf.name_scope(scope or "sum_regularizer"):
            penalties = [
                value for regularizer in chosen if (value := regularizer(weights)) is not None
            ]
            return tf.add_n(penalties) if penalties else None

    return penalty


def apply_regularization(regularizer: Regularizer, weights_list: Any = None) -> tf.Tensor:
    """The penalty of all weights (those in the collection WEIGHTS by default), also collected."""
    weights = v1.get_collection(v1.GraphKeys.WEIGHTS) if weights_list is None else weights_list
    penalties = [value for w in weights if (value := regularizer(w)) is not None]
    total = tf.add_n(penalties) if penalties else tf.constant(0.0)
    v1.add_to_collection(v1.GraphKeys.REGULARIZATION_LOSSES, total)
    return total


def _scaled(scale: Any, scope: str, measure: Callable[[Any], Any]) -> Regularizer:
    if isinstance(scale, numbers.Integral):
        raise ConfigError(f"scale cannot be an integer: {scale}. Write {float(scale)}.")
    if isinstance(scale, numbers.Real) and scale < 0.0:
        raise ConfigError(f"Setting a scale less than 0 on a regularizer: {scale:g}")
    if isinstance(scale, numbers.Real) and scale == 0.0:
        return lambda weights: None

    def penalty(weights: Any) -> Any:
        with tf.name_scope(scope):
            return tf.multiply(tf.cast(scale, weights.dtype.base_dtype), measure(weights))

    return penalty
