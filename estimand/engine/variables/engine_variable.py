"""Eager variables that answer what v1 graph code asks of a variable."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core import tf_private
from estimand.core.tf_private.kerases import called_by_keras
from estimand.engine.variables import eager_writes as eager_writes


@dataclass(frozen=True)
class VariableOp:
    """What `variable.op` answers: v1 code reads its name, graph and type."""

    name: str
    graph: tf.Graph
    type: str = "VarHandleOp"
    device: str = ""
    traceback: Any = None


_WRITTEN_BY_HAND = "estimand/written_by_hand"


def written_by_hand(graph: tf.Graph) -> set[str]:
    """The ops that v1 code made to write to variables of Keras: they run if it says so only."""
    return set(graph.get_collection(_WRITTEN_BY_HAND))


def _writing(name: str) -> Callable[..., Any]:
    """A method of variables that notes for whom it writes.

    Keras code relies on program order. v1 code wires what it writes: `variable.assign` only makes
    an op, and an optimizer of its own may write so to the variables of Keras layers.
    """

    def write(self: Any, *args: Any, **kwargs: Any) -> Any:
        original = getattr(super(V1Answers, self), name)
        if (kept := eager_writes.keeping()) is not None:
            # Metrics made by hand are read after each batch: they are updated where they stand.
            if (self.is_local and not kept.training) or called_by_keras():
                return original(*args, **kwargs)
            return eager_writes.write(kept, self, name, original, args, kwargs)
        if not self.of_keras or tf.executing_eagerly() or called_by_keras():
            return original(*args, **kwargs)
        graph = tf.compat.v1.get_default_graph()
        first = len(graph.get_operations())
        result = original(*args, **kwargs)
        for op in graph.get_operations()[first:]:
            graph.add_to_collection(_WRITTEN_BY_HAND, op.name)
        return result

    write.__name__ = name
    return write


class V1Answers:
    """The answers, for any class of eager variables."""

    of_keras = False  # made by Keras code
    is_local = False  # of one trace or run, such as a metric's
    _estimand_initial_value: Any = None

    assign = _writing("assign")
    assign_add = _writing("assign_add")
    assign_sub = _writing("assign_sub")
    scatter_add = _writing("scatter_add")
    scatter_sub = _writing("scatter_sub")
    scatter_max = _writing("scatter_max")
    scatter_min = _writing("scatter_min")
    scatter_mul = _writing("scatter_mul")
    scatter_div = _writing("scatter_div")
    scatter_update = _writing("scatter_update")
    batch_scatter_update = _writing("batch_scatter_update")
    scatter_nd_add = _writing("scatter_nd_add")
    scatter_nd_sub = _writing("scatter_nd_sub")
    scatter_nd_update = _writing("scatter_nd_update")
    scatter_nd_max = _writing("scatter_nd_max")
    scatter_nd_min = _writing("scatter_nd_min")

    # A variable of a v1 graph may be in a set and is equal to itself only.
    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    @property
    def op(self: Any) -> VariableOp:
        return VariableOp(self.name.split(":")[0], tf.compat.v1.get_default_graph())

    @property
    def graph(self) -> tf.Graph:
        return tf.compat.v1.get_default_graph()

    @property
    def initial_value(self: Any) -> Any:
        value = self._estimand_initial_value
        return tf.convert_to_tensor(value() if callable(value) else value, self.dtype)

    def initialized_value(self: Any) -> Any:
        writes = eager_writes.under_way()
        return self.read_value() if writes is None else writes.value_at_start(self)

    @property
    def initializer(self: Any) -> Any:
        """An op that sets the initial value again, in the graph being built."""
        if self._initializer_op is not None:  # set by tf.compat.v1.train.init_from_checkpoint
            return self._initializer_op
        return self.assign(self.initial_value, read_value=False)

    def eval(self: Any, session: Any = None) -> np.ndarray:
        del session
        with tf_private.eager_mode():
            return self.numpy()

    def load(self: Any, value: Any, session: Any = None) -> None:
        del session
        with tf_private.eager_mode():
            self.assign(value)


class EngineVariable(V1Answers, tf_private.ResourceVariable):
    """An eager variable that answers what v1 graph code asks of a variable."""


class ValuelessVariable(V1Answers, tf_private.UninitializedVariable):
    """A variable of a trace that is not run: its value is nowhere, however large it would be."""
