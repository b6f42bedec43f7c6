"""Features as points in space: what k-means and nearest neighbours work on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from estimand.core.errors import InputError
from estimand.features import input_layer


def points_of(who: str, features: Any, feature_columns: Sequence[Any] | None) -> tf.Tensor:
    """The points, one per row: a tensor as it is, a dict's features side by side, by name.

    `who` needs them: errors begin with it.
    """
    if isinstance(features, Mapping):
        if feature_columns:
            return input_layer(features, feature_columns)
        parts = [_rows(who, features[key], key) for key in sorted(features)]
        if not parts:
            raise InputError(f"{who} got a batch without features. Let input_fn return points.")
        features = tf.concat(parts, axis=1)
    points = _rows(who, features, "features")
    if tf.compat.dimension_value(points.shape[1]) is None:
        raise InputError(
            f"{who} needs to know how many numbers a point has; the points have shape "
            f"{points.shape}. Fix it in input_fn: tf.ensure_shape(points, [None, n])."
        )
    return points


def _rows(who: str, values: Any, name: str) -> tf.Tensor:
    if isinstance(values, (tf.SparseTensor, tf.RaggedTensor)):
        raise InputError(
            f"{who} needs dense points, but {name!r} is a {type(values).__name__}. "
            "Pass feature_columns that make it dense."
        )
    values = tf.convert_to_tensor(values)
    if values.dtype == tf.string or values.shape.rank not in (1, 2):
        raise InputError(
            f"{who} needs points of numbers, [batch, n]; {name!r} has type "
            f"{values.dtype.name} and shape {values.shape}. Pass feature_columns for what is "
            "not a number."
        )
    if values.shape.rank == 1:
        values = values[:, None]
    return tf.cast(values, tf.float32)  # the only type that TensorFlow's kernels take
