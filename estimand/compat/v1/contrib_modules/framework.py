"""`tf.contrib.framework`: variables by scope."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

v1 = tf.compat.v1
sort = tf.sort
argsort = tf.argsort


def get_name_scope() -> str:
    """The name scope that operations are made in here."""
    return v1.get_default_graph().get_name_scope()


def get_variables(
    scope: Any = None, suffix: str | None = None, collection: str = v1.GraphKeys.GLOBAL_VARIABLES
) -> list[Any]:
    """The variables below a scope, those whose name ends in `suffix` if it is given."""
    name = scope.name if isinstance(scope, v1.VariableScope) else scope
    members = v1.get_collection(collection, name)
    return [v for v in members if suffix is None or v.op.name.endswith(suffix)]


def get_trainable_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """The same of trainable ones."""
    return get_variables(scope, suffix, v1.GraphKeys.TRAINABLE_VARIABLES)
