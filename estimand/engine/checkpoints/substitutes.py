"""Other places in a checkpoint where a variable's value may be, when its name is not there.

A model that can continue checkpoints written under other names notes how to find things in them;
restoring asks only for what is missing under its own name.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

_COLLECTION = "estimand/checkpoint_substitutes"


@dataclass(frozen=True)
class Source:
    """Tensors of a checkpoint, and what to make of them.

    `value` is a function of the tensors `names`, or a number; None takes the only tensor as it is.
    """

    names: tuple[str, ...]
    value: Any = None

    def compute(self, tensors: Sequence[Any]) -> Any:
        """What the variable gets."""
        if self.value is None:
            (only,) = tensors
            return only
        return self.value(*tensors) if callable(self.value) else self.value


# From a variable's name and the names in a checkpoint to where its value is, if it is anywhere.
FindSource = Callable[[str, Collection[str]], Source | None]


def note_substitutes(graph: tf.Graph, find: FindSource) -> None:
    """Let the model that is being built in `graph` be restored from other names as well."""
    graph.add_to_collection(_COLLECTION, find)


def substitutes(collected: Callable[[str], list[Any]]) -> FindSource | None:
    """All that was noted, as one; `collected` reads a collection of the built model."""
    noted: list[FindSource] = collected(_COLLECTION)
    if not noted:
        return None

    def find(name: str, stored: Collection[str]) -> Source | None:
        sources = (find(name, stored) for find in noted)
        return next((s for s in sources if s is not None), None)

    return find
