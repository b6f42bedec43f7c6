"""Variables of which each replica holds a copy, under one name.

The strategy makes them and keeps the copies equal; here they get the answers that v1 code
expects, and the copies become variables like all others of the engine.
"""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.engine.distributed.replicas import workers
from estimand.engine.engine_variable import EngineVariable, V1Answers

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


def make_variable(strategy: tf.distribute.Strategy | None, **kwargs: Any) -> Any:
    """A variable as `strategy` wants it; called in eager mode."""
    if strategy is None:
        return EngineVariable(**kwargs)
    if workers(strategy) > 1 and _averaged_when_read(kwargs):
        # Reading it would take all processes, but a checkpoint is taken by the chief alone.
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
    if not isinstance(variable, EngineVariable):
        variable.__class__ = _answering(type(variable))
    return variable


def _averaged_when_read(kwargs: dict[str, Any]) -> bool:
    """As the moving averages of batch normalization are."""
    return (
        kwargs.get("synchronization") == tf.VariableSynchronization.ON_READ
        and kwargs.get("aggregation") == tf.VariableAggregation.MEAN
    )


@functools.cache
def _answering(kind: type) -> type:
    return type(f"Engine{kind.__name__}", (V1Answers, kind), {})


def copies(variable: Any) -> list[Any]:
    """The copies of a variable on the replicas of this process; a plain one is its own."""
    strategy = getattr(variable, "distribute_strategy", None)
    if strategy is None or not isinstance(variable, tf.distribute.DistributedValues):
        return [variable]
    return list(strategy.experimental_local_results(variable))
