"""The variables that one trace touched, and how code that is being traced finds them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from estimand.engine.variables.engine_variable import EngineVariable
from estimand.engine.variables.twins import Twins

_Keys = tf.compat.v1.GraphKeys
TRACED = "estimand/traced_variables"


@dataclass
class TracedVariables:
    """The variables one trace touched, by the role they play in it."""

    graph: tf.Graph
    by_name: dict[str, tf.Variable] = field(default_factory=dict)
    local: dict[str, EngineVariable] = field(default_factory=dict)
    # Variables with TF2 semantics: Keras code, or made outside the model function. What is
    # assigned to them happens in program order and needs no train_op to pull it in.
    tf2_style: dict[str, tf.Variable] = field(default_factory=dict)
    deferred: list[tuple[EngineVariable, tf.Tensor]] = field(default_factory=list)
    kept_local: dict[str, EngineVariable] | None = None
    metric_owned: set[str] = field(default_factory=set)
    # The Keras objects around our variables, for Keras optimizers.
    keras_variables: dict[int, Any] = field(default_factory=dict)
    # Several workers update the variables, each when it has gradients.
    asynchronous: bool = False
    forgotten: set[int] = field(default_factory=set)  # ids of those that are none of the model's
    # Variables of the trace's own in the place of others, which somebody else may change.
    twins: Twins = field(default_factory=Twins)

    def saved(self) -> dict[str, tf.Variable]:
        """The variables that belong into a checkpoint, by their names in it."""
        skipped = self.local.keys() | self.metric_owned
        return {n: v for n, v in self.by_name.items() if n not in skipped}

    def forget(self, variables: Iterable[tf.Variable]) -> None:
        """Take back variables that were made, but turn out not to belong to the model."""
        gone = {id(v) for v in variables}
        self.forgotten |= gone
        for known in (self.by_name, self.local, self.tf2_style):
            for name in [n for n, v in known.items() if id(v) in gone]:
                del known[name]
        for collection in (_Keys.GLOBAL_VARIABLES, _Keys.LOCAL_VARIABLES):
            held = self.graph.get_collection_ref(collection)
            held[:] = [v for v in held if id(v) not in gone]


def traced_variables(graph: tf.Graph) -> TracedVariables:
    """The variables of the trace that is being built in `graph`."""
    return graph.get_collection(TRACED)[0]


def is_traced(graph: tf.Graph) -> bool:
    """Whether a trace is being built in `graph`."""
    return bool(graph.get_collection(TRACED))
