"""Variables of one part: to tf.estimator they were partitioned, here they are whole.

Its canned models asked for their variables with a partitioner, which without parameter servers
gave one part. Code around such a model asks for the same variable with a partitioner of its own,
and hooks by the name of the part: `linear/linear_model/x/weights/part_0:0`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Container, Iterator
from typing import Any

import tensorflow as tf

_PART = "/part_0"


@contextlib.contextmanager
def found_whole(whole: Container[str]) -> Iterator[None]:
    """Inside, whoever asks for one of the variables in one part gets it, as it is."""

    def ours(getter: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        partitioner = kwargs.get("partitioner")
        if partitioner is not None and name in whole and _is_one_part(kwargs):
            kwargs["partitioner"] = None
        return getter(name, *args, **kwargs)

    scope = tf.compat.v1.get_variable_scope()
    before = scope.custom_getter
    scope.set_custom_getter(ours if before is None else _both(before, ours))
    try:
        yield
    finally:
        scope.set_custom_getter(before)


def name_of_whole(name: str) -> str:
    """The variable that the name of a tensor or op means.

    >>> name_of_whole("linear/linear_model/x/weights/part_0:0")
    'linear/linear_model/x/weights'
    """
    return name.split(":")[0].removesuffix("/read").removesuffix(_PART)


def _is_one_part(asked: dict[str, Any]) -> bool:
    shape = tf.TensorShape(asked.get("shape"))
    if not shape.is_fully_defined():
        return False
    parts = asked["partitioner"](shape=shape, dtype=tf.as_dtype(asked.get("dtype") or tf.float32))
    return all(number == 1 for number in parts)


def _both(outer: Any, ours: Any) -> Any:
    """A getter that somebody has set, and which calls ours."""

    def both(getter: Any, *args: Any, **kwargs: Any) -> Any:
        return outer(functools.partial(ours, getter), *args, **kwargs)

    return both
