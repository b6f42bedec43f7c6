"""The variable scopes of v1 layers: what they are called, and how they are entered again."""

from __future__ import annotations

import re
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


class LayerScope:
    """The layer's variable scope together with its name scope, both re-entered, not numbered."""

    def __init__(self, scope: Any, reuse: Any) -> None:
        self._variable_scope = v1.variable_scope(scope, reuse=reuse, auxiliary_name_scope=False)
        self._name_scope = tf.name_scope(scope.original_name_scope)

    def __enter__(self) -> Any:
        scope = self._variable_scope.__enter__()
        self._name_scope.__enter__()
        return scope

    def __exit__(self, *error: Any) -> None:
        self._name_scope.__exit__(*error)
        self._variable_scope.__exit__(*error)


def snake_case(class_name: str) -> str:
    """The scope name of a class.

    >>> snake_case("BatchNormalization"), snake_case("Conv2DTranspose"), snake_case("_Mine")
    ('batch_normalization', 'conv2d_transpose', 'private__mine')
    """
    words = re.sub(r"(?<=.)(?=[A-Z][a-z0-9])|(?<=[a-z])(?=[A-Z])", "_", class_name).lower()
    return f"private{words}" if words.startswith("_") else words


def scope_name_of(name: Any) -> str | None:
    return name.name if isinstance(name, v1.VariableScope) else name
