"""Counters of TensorFlow 1's optimizers, which the optimizer keeps by the graph they belong to.

In a function that is being traced they are made outside of any graph and kept under None.
Optimizers that people wrote ask for them by the graph of the moment, as there was no other.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from estimand.core.interpreter.swapping import swapped


@contextlib.contextmanager
def non_slot_variables_of_any_graph() -> Iterator[None]:
    """Inside, what an optimizer does not have for a graph, it may have for none."""
    with swapped([(tf.compat.v1.train.Optimizer, "_get_non_slot_variable", _or_of_none)]):
        yield


def _or_of_none(original: Callable[..., Any]) -> Callable[..., Any]:
    def get_non_slot_variable(self: Any, name: str, graph: Any = None) -> Any:
        variable = original(self, name, graph=graph)
        return (
            original(self, name, graph=None) if variable is None and graph is not None else variable
        )

    return get_non_slot_variable
