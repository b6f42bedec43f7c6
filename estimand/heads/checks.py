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
    return [] if known else refuse(*told)


def refuse(*told: Any) -> list[tf.Operation]:
    """Say that something cannot be: at once, or in a graph for sessions when it is run.

    Such graphs are built in one place and run in another, where callers expect the complaint.
    """
    if in_session_graph():
        return [tf.raw_ops.Assert(condition=False, data=_data(told), summarize=_VALUES_TO_SHOW)]
    raise HeadError(" ".join(_text(part).strip() for part in told))


def in_session_graph() -> bool:
    """Whether a graph is being built that a session, not the engine, is going to run."""
    return not tf.executing_eagerly() and not tf.compat.v1.get_default_graph().building_function


def shape_to_tell(tensor: tf.Tensor) -> Any:
    """The shape of a tensor for `refuse`, with None where it is not known yet."""
    return tf.shape(tensor) if in_session_graph() else tuple(tensor.shape.as_list())


def same_shape(first: tf.Tensor, second: tf.Tensor) -> tf.Tensor:
    """Whether two shapes, which may be of different lengths, are equal."""
    equal = tf.raw_ops.Equal(x=first, y=second, incompatible_shape_error=False)
    return tf.reduce_all(equal) & tf.equal(tf.size(first), tf.size(second))


def of_unknown_shape(tensor: tf.Tensor) -> tf.Tensor:
    """`tensor`, so that what is built on it does not look at its shape."""
    return tf.compat.v1.placeholder_with_default(tensor, shape=None)


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
