"""Variables that stand in for others, so that whoever reads a model keeps the values it began with.

A twin shares the memory of its variable until one of them is written to.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.engine.variables.engine_variable import EngineVariable
from estimand.engine.variables.placement import copies

_TAKEN_OVER = ("_estimand_initial_value", "_save_slice_info", "of_keras", "is_local")


class Twins:
    """Which variable stands in for which, in one trace."""

    def __init__(self) -> None:
        self._pairs: dict[int, tuple[Any, Any]] = {}

    def add(self, variable: tf.Variable, twin: tf.Variable) -> None:
        self._pairs[id(variable)] = (variable, twin)

    def own(self, variable: tf.Variable) -> Any:
        """The variable that the trace really uses where its code says `variable`."""
        while id(variable) in self._pairs:
            variable = self._pairs[id(variable)][1]
        return variable

    def bind(self, graph: tf.Graph) -> None:
        """Let what is cut out of `graph` from now on use the twins."""
        handles = {
            id(copy.handle): self.own(variable).handle
            for variable, _ in self._pairs.values()
            for copy in copies(variable)
        }
        tf_private.rebind_captures(graph, handles)


def twin_of(variable: tf.Variable) -> EngineVariable:
    """A variable of its own with the present value."""
    name = variable.name.split(":")[0]
    # Not through creators of variables, which belong to a graph: in a new one none is in force.
    with tf.Graph().as_default(), tf_private.eager_mode():
        twin = EngineVariable(
            variable.read_value(),
            trainable=variable.trainable,
            name=name,
            dtype=variable.dtype,
            shape=variable.shape,
        )
    for attribute in _TAKEN_OVER:
        if hasattr(variable, attribute):
            setattr(twin, attribute, getattr(variable, attribute))
    return twin
