"""Variables of which each replica holds a copy, under one name.

The strategy makes them and keeps the copies equal; here they get the answers that v1 code
expects, and the copies become variables like all others of the engine.
"""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.engine.distributed import replicas
from estimand.engine.variables.engine_variable import EngineVariable, V1Answers
from estimand.engine.variables.maker import VariableMaker

_COMPONENT_ARGUMENTS = (
    "initial_value",
    "trainable",
    "name",
    "dtype",
    "constraint",
    "synchronization",
    "aggregation",
    "shape",
)


class MirroredVariables(VariableMaker):
    """Makes variables as a strategy wants them, once for all modes."""

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self._strategy = strategy
        self.are_remote = not replicas.first_device_is_default(strategy)

    def make(self, *, is_local: bool, asynchronous: bool, **arguments: Any) -> Any:
        # A local one belongs to one trace, which may be that of a single replica.
        if is_local and not tf.distribute.has_strategy():
            return super().make(is_local=True, asynchronous=asynchronous, **arguments)
        return make_variable(self._strategy, is_local=is_local, **arguments)

    def of_keras(self, keras_variable: Any, arguments: dict[str, Any]) -> dict[str, Any]:
        return with_keras_aggregation(keras_variable, arguments)


def make_variable(
    strategy: tf.distribute.Strategy, *, is_local: bool = False, **kwargs: Any
) -> Any:
    """A variable as `strategy` wants it; called in eager mode."""
    if _averaged_when_read(kwargs) and not is_local:
        # Reading it would take all devices, and all processes; but predictions are made on one,
        # and a checkpoint is taken by the chief. So it is averaged when it is written.
        kwargs["synchronization"] = tf.VariableSynchronization.AUTO

    def make_copy(next_creator: Any, **given: Any) -> EngineVariable:
        del next_creator
        return EngineVariable(**{k: v for k, v in given.items() if k in _COMPONENT_ARGUMENTS})

    # Strategies and creators belong to the default graph: in a new one none is in force. What is
    # entered last is asked first: the strategy, which then lets its copies be made by us.
    with (
        tf.Graph().as_default(),
        tf_private.eager_mode(),
        tf.variable_creator_scope(make_copy),
        strategy.scope(),
    ):
        variable = tf.Variable(**kwargs)
    if isinstance(variable, EngineVariable):
        tf_private.variable_belongs_to(variable, strategy)
    else:
        variable.__class__ = _answering(type(variable))  # type: ignore[arg-type]
    return variable


def with_keras_aggregation(keras_variable: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """How copies of a variable that a Keras layer does not train become one value.

    Keras says nothing of it, not even for the moving averages of batch normalization: each
    replica would go on with its own, and a checkpoint have those of the first. They are averaged.
    """
    said = _name(kwargs.get("aggregation")) != "NONE"
    numbers = tf.as_dtype(keras_variable.dtype).is_floating
    if said or not numbers or tf_private.keras_optimizer_is_creating():
        return kwargs
    return {**kwargs, "aggregation": tf.VariableAggregation.MEAN}


def _averaged_when_read(kwargs: dict[str, Any]) -> bool:
    """As the moving averages of batch normalization are."""
    averaged = _name(kwargs.get("aggregation")) == "MEAN"
    return averaged and _name(kwargs.get("synchronization")) == "ON_READ"


def _name(choice: Any) -> str:
    """Of an aggregation, or the like: TensorFlow has two sets of them, equal in names only."""
    return getattr(choice, "name", "NONE")


@functools.cache
def _answering(kind: Any) -> Any:
    return type(f"Engine{kind.__name__}", (V1Answers, kind), {})
