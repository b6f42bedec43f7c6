"""Eager variables that answer what v1 graph code asks of a variable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core import tf_private


@dataclass(frozen=True)
class VariableOp:
    """What `variable.op` answers: v1 code reads its name, graph and type."""

    name: str
    graph: tf.Graph
    type: str = "VarHandleOp"
    device: str = ""
    traceback: Any = None


class V1Answers:
    """The answers, for any class of eager variables."""

    _estimand_initial_value: Any = None

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
        return self.read_value()

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
