"""Looking at Keras-style metric objects without importing Keras.

Keras 3 keeps no record of its updates. In a graph the graph itself does: whatever writes to a
metric's variables is an operation that takes their handle.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_READERS = {"ReadVariableOp", "VarIsInitializedOp", "VariableShape", "ResourceGather"}


def is_metric(value: Any) -> bool:
    """Whether `value` answers to the calls of a Keras metric, of whatever Keras."""
    return not isinstance(value, type) and all(
        any(callable(getattr(value, name, None)) for name in alternatives)
        for alternatives in (("update_state",), ("result",), ("reset_state", "reset_states"))
    )


def update_operations(metric: Any) -> list[tf.Operation] | None:
    """The operations of the current graph that change the metric's state.

    None where that cannot be known: eagerly, and for variables spread over devices. An
    operation that calls a function with the metric inside counts as changing it.
    """
    if tf.executing_eagerly():
        return None
    operations: dict[str, tf.Operation] = {}
    for variable in metric.variables:
        handle = _handle_in_graph(variable)
        if handle is None:
            return None
        initializer = _initializer_name(variable)
        for operation in handle.consumers():
            if operation.type not in _READERS and operation.name != initializer:
                operations[operation.name] = operation
    return list(operations.values())


def for_sessions(value: Any) -> Any:
    """A metric object of a graph that a session runs, as the pair (result, update operation).

    Its variables join the local ones, which is where a session looks for what to initialize.
    """
    if not is_metric(value):
        return value
    operations = update_operations(value)
    if not operations:
        return value
    keys = tf.compat.v1.GraphKeys
    for collection in (keys.LOCAL_VARIABLES, keys.METRIC_VARIABLES):
        known = {id(variable) for variable in tf.compat.v1.get_collection(collection)}
        for variable in value.variables:
            plain = variable if isinstance(variable, tf.Variable) else variable.value
            if id(plain) not in known:
                tf.compat.v1.add_to_collection(collection, plain)
    return value.result(), tf.group(*operations)


def was_updated(metric: Any) -> bool:
    """False only if `update_state` was surely not called.

    Metrics that shape their state after the data make their variables in the first update, so
    an empty list of variables says no; an object that has no such list says nothing.
    """
    if not hasattr(metric, "variables"):
        return True
    if not metric.variables:
        return False
    operations = update_operations(metric)
    return operations is None or bool(operations)


def _initializer_name(variable: Any) -> str | None:
    """Only a variable that belongs to a v1 graph is initialized by an operation of it."""
    if not hasattr(variable.handle, "graph"):
        return None
    plain = variable if isinstance(variable, tf.Variable) else variable.value
    if isinstance(plain, tf.distribute.DistributedValues):
        return None
    return plain.initializer.name


def _handle_in_graph(variable: Any) -> tf.Tensor | None:
    graph = tf.compat.v1.get_default_graph()
    try:
        handle = variable.handle
        belongs_to = getattr(handle, "graph", None)
        if belongs_to is graph or (belongs_to is not None and not hasattr(graph, "capture")):
            return handle
        # A function's graph sees variables from outside through placeholders of its own.
        return graph.capture(handle)
    except (AttributeError, TypeError, ValueError):
        # No handle, or not in this replica; not a function's graph; a handle out of its reach.
        return None
