"""One way to insist on something about tensors: at once where it can be known, else at run time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimand.core.errors import HeadError

_VALUES_TO_SHOW = 16


def require(condition: Any, *told: Any) -> list[tf.Operation]:
    """What to wait for so that `condition` holds; raises at once if it is known to fail.

    `told` are the parts of the sentence to say, texts and tensors. The result is empty where
    nothing is left to check. In a graph this is one plain op, not a conditional: the parts are
    tensors that are there anyway, so that a step in which all is well pays next to nothing.
    """
    known = tf.get_static_value(condition)
    if known is None:
        return [tf.raw_ops.Assert(condition=condition, data=_data(told), summarize=_VALUES_TO_SHOW)]
    if not known:
        raise HeadError(" ".join(_text(part) for part in told))
    return []


def after(operations: Sequence[tf.Operation], tensor: tf.Tensor) -> tf.Tensor:
    """`tensor`, but not before `operations` have run."""
    if not operations:
        return tensor
    with tf.control_dependencies(operations):
        return tf.identity(tensor)


def _data(told: Sequence[Any]) -> list[tf.Tensor]:
    return [tf.convert_to_tensor(part) for part in told]


def _text(part: Any) -> str:
    value = tf.get_static_value(part) if tf.is_tensor(part) else part
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    return str(part if value is None else value)
