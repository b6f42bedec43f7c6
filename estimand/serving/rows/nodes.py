"""An operation of a graph, as the rules for operations see it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from estimand.serving.rows.sizes import Size, Symbol
from estimand.serving.rows.values import Value


@dataclass(frozen=True)
class Node:
    """`path` are the calls that led to it: what has the same path and name is the same thing.

    Not so inside of a loop, where it is another thing with each turn.
    """

    definition: Any  # NodeDef
    path: tuple[str, ...] = ()
    in_loop: bool = False

    @property
    def op(self) -> str:
        return str(self.definition.op)

    def integer(self, name: str, default: int = 0) -> int:
        attr = self.definition.attr
        return int(attr[name].i) if name in attr else default

    def flag(self, name: str, default: bool = False) -> bool:
        attr = self.definition.attr
        return bool(attr[name].b) if name in attr else default

    def text(self, name: str, default: str = "") -> str:
        attr = self.definition.attr
        return attr[name].s.decode() if name in attr else default

    def integers(self, name: str) -> list[int]:
        attr = self.definition.attr
        return [int(number) for number in attr[name].list.i] if name in attr else []

    def dtype(self, name: str) -> tf.DType:
        return tf.as_dtype(self.definition.attr[name].type)

    def new_size(self, kind: str, *key: object) -> Size | None:
        """A new symbol; the same for the same key. None in a loop, where it would change."""
        return None if self.in_loop else Size.of(Symbol(kind, (self.path, *key)))


Rule = Callable[[Node, list[Value]], "Value | list[Value]"]


def sizes_of(shape: Any) -> tuple[Size, ...] | None:
    """Of a TensorShapeProto without unknown sizes."""
    if shape.unknown_rank or any(dim.size < 0 for dim in shape.dim):
        return None
    return tuple(Size(dim.size) for dim in shape.dim)
