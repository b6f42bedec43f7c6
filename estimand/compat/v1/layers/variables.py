"""Getting variables by `get_variable`, also partitioned ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def get_or_create(name: str, **arguments: Any) -> tuple[Any, bool]:
    """`get_variable`, and whether it made a variable rather than found one.

    Only a creator can tell: collections are empty when executing eagerly and when variables are
    lifted out of a function, and a variable found by `reuse` never reaches the creators.
    """
    created = []

    def note(next_creator: Callable[..., Any], **kwargs: Any) -> Any:
        created.append(kwargs.get("name"))
        return next_creator(**kwargs)

    with tf.variable_creator_scope(note):
        variable = tf.compat.v1.get_variable(name, **arguments)
    return variable, bool(created)


def parts(variable: Any) -> list[Any]:
    """The pieces of a partitioned variable; any other variable is its own only piece."""
    return list(variable) if hasattr(variable, "as_tensor") else [variable]


def whole(variable: Any) -> Any:
    """Something every operation takes: the pieces of a partitioned variable put together."""
    return variable.as_tensor() if hasattr(variable, "as_tensor") else variable
