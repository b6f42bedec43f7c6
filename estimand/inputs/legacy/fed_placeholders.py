"""Placeholders of an input function that a hook feeds: once, or at every step.

`session.run(iterator.initializer, {placeholder: array})` in `after_create_session` was the way to
give large arrays to an input function without putting them into its graph. Others return the
placeholders themselves, and a hook (`tf.train.FeedFnHook`) has a batch for them at every step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import InputError


class FedByHooks(tf.TensorSpec):
    """In the place of the features' spec: features and labels are made in the model's graph.

    There hooks find the placeholders by name, and feed them as those of the model function.

    Args:
        build: calls the input function; gives `(features,)` or `(features, labels)`.
    """

    def __init__(self, build: Callable[[], tuple[Any, ...]]) -> None:
        super().__init__([], tf.int64)
        self.build = build

    def __repr__(self) -> str:
        return f"FedByHooks({id(self)})"  # a trace is of this very input function


class FedPlaceholders:
    """The values of some placeholders, which are to come before the first batch is read."""

    def __init__(self, placeholders: Sequence[tf.Tensor], where: str) -> None:
        self._placeholders = list(placeholders)
        self._where = where
        with tf_private.plain_variables():
            self._is_fed = tf.Variable(False, trainable=False)
            self._values = [
                tf.Variable(_nothing(p.dtype), shape=tf.TensorShape(None), trainable=False)
                for p in placeholders
            ]

    def feed(self, feed_dict: Mapping[Any, Any]) -> None:
        """Take the values of all placeholders from what a session was given."""
        given = {getattr(key, "name", key): value for key, value in feed_dict.items()}
        missing = [p.name for p in self._placeholders if p.name not in given]
        if missing:
            raise InputError(
                f"{self._where}: its iterator was initialized without a value for the placeholder "
                f"{missing[0]!r}. Feed it: session.run(iterator.initializer, feed_dict={{...}})."
            )
        with tf_private.eager_mode():
            for placeholder, variable in zip(self._placeholders, self._values, strict=True):
                value = np.asarray(given[placeholder.name])
                if not placeholder.shape.is_compatible_with(value.shape):
                    raise InputError(
                        f"{self._where}: the placeholder {placeholder.name!r} is of shape "
                        f"{placeholder.shape}, and is fed an array of shape {value.shape}."
                    )
                variable.assign(tf.convert_to_tensor(value, placeholder.dtype))
            self._is_fed.assign(True)

    def dataset(self, make: Callable[..., Any], spec: Any) -> tf.data.Dataset:
        """A Dataset of elements like `spec`, made when its first element is asked for."""
        message = (
            f"{self._where}: its Dataset is made of the placeholder "
            f"{self._placeholders[0].op.name!r}, and nobody feeds it. Feed it in a hook: "
            "session.run(iterator.initializer, feed_dict={...}) in after_create_session; or put "
            "the value itself in its place: `tf.data.Dataset.from_tensor_slices(array)`."
        )

        def elements(_: tf.Tensor) -> tf.data.Dataset:
            checked = tf.debugging.Assert(self._is_fed.read_value(), [message])
            with tf.control_dependencies([checked]):
                values = [variable.read_value() for variable in self._values]
            for value, placeholder in zip(values, self._placeholders, strict=True):
                value.set_shape(placeholder.shape)
            (variant,) = make(*values)
            return tf.data.experimental.from_variant(variant, spec)

        return tf.data.Dataset.range(1).flat_map(elements)


def _nothing(dtype: tf.DType) -> tf.Tensor:
    return tf.zeros([0], dtype) if dtype != tf.string else tf.constant([], tf.string)
