"""What the engine asks of a model, whether it was traced or runs eagerly."""

from __future__ import annotations

import contextlib
from typing import Any, ClassVar, Protocol

import tensorflow as tf

from estimand.core.spec import EstimatorSpec
from estimand.engine.distribution import Distribution, Stop
from estimand.engine.tracing.randomness import Draws
from estimand.engine.variables.traced_variables import TracedVariables


class BuiltModel(Protocol):
    """`Trace` and `EagerTrace` are such models."""

    runs_eagerly: ClassVar[bool]
    mode: str
    spec: EstimatorSpec
    variables: TracedVariables
    global_step: tf.Variable
    stop: Stop
    draws: Draws | None

    @property
    def graph(self) -> tf.Graph: ...

    @property
    def distribution(self) -> Distribution: ...

    @property
    def has_remote_variables(self) -> bool: ...

    def collection(self, name: str) -> list[Any]:
        """What a collection of the graph holds, each thing once."""

    def as_default(self) -> contextlib.AbstractContextManager[tf.Graph]:
        """Where hooks find its graph, and may add to it."""

    def at_a_look(self) -> contextlib.AbstractContextManager[tf.Graph]:
        """The same, at every step: they find the graph, and add nothing."""

    def step_now(self) -> int:
        """The global step."""
