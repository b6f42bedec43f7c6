"""A copied part of a graph, made smaller before it becomes the body of a loop.

TensorFlow simplifies the graphs of functions it runs, but not the bodies of loops that its
single-threaded executor runs. In a small model more than half of the ops are of the kind that
goes away: arithmetic on static shapes, ordering of gradients, gradients nobody asked for.
"""

from __future__ import annotations

import collections
import heapq
import logging
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from estimand.core import tf_private

_log = logging.getLogger("tensorflow")

# Simplifying takes a few milliseconds per hundred ops; of large graphs, ops of another kind
# make out the time.
_MOST_NODES = 3000


def simplified(part: Any, given: Mapping[str, tf.Tensor], fetches: Iterable[str]) -> Any:
    """What computes the same as `part`; `given` are the tensors it gets from outside, by name.

    Ops that touch variables keep their order, which automatic control dependencies follow. Where
    it cannot be done, `part` itself.
    """
    outside = {name.split(":")[0] for name in given}
    inside = {node.name for node in part.node}
    if not inside or len(part.node) > _MOST_NODES or outside & inside:
        return part
    if any(not name.endswith(":0") for name in given):
        return part
    graph = tf.compat.v1.GraphDef()
    graph.CopyFrom(part)
    for name, tensor in given.items():
        _add_stand_in(graph, name.split(":")[0], tensor)
    try:
        result = tf_private.simplify_graph(graph, fetches)
    except (tf.errors.OpError, RuntimeError, ValueError) as error:
        _log.debug("The step is run as it is: %s", error)
        return part
    if _calls_new_functions(result, part):
        return part
    ordered = _in_order(result, outside, part)
    # Loops of the v1 kind are cycles, which have no order: those stay as they are.
    return ordered if ordered is not None else part


def _calls_new_functions(graph: Any, original: Any) -> bool:
    """Whether a body of a conditional or a loop was specialized: TensorFlow runs only functions
    that were traced, or registered otherwise."""
    known = {function.signature.name for function in original.library.function}
    for node in graph.node:
        for value in node.attr.values():
            called = [value.func, *value.list.func]
            if any(function.name and function.name not in known for function in called):
                return True
    return False


def _add_stand_in(graph: Any, name: str, tensor: tf.Tensor) -> None:
    """Something of the tensor's type and shape, for variables of what they hold as well."""
    node = graph.node.add()
    node.name = name
    held = tf_private.held_by(tensor) if tensor.dtype == tf.resource else None
    if held is not None:
        node.op = "VarHandleOp"
        node.attr["dtype"].type, shape = held
        node.attr["shape"].shape.CopyFrom(shape)
        node.attr["shared_name"].s = name.encode()
        return
    node.op = "Placeholder"
    node.attr["dtype"].type = tensor.dtype.as_datatype_enum
    node.attr["shape"].shape.CopyFrom(tensor.shape.as_proto())


def _in_order(graph: Any, outside: set[str], original: Any) -> Any:
    """The nodes of `graph` without those of `outside`, in the order of `original`."""
    place = {node.name: i for i, node in enumerate(original.node)}
    nodes = {node.name: node for node in graph.node if node.name not in outside}
    waiting: dict[str, int] = {}
    users: dict[str, list[str]] = collections.defaultdict(list)
    for node in nodes.values():
        needed = {i.lstrip("^").split(":")[0] for i in node.input} & nodes.keys()
        waiting[node.name] = len(needed)
        for name in needed:
            users[name].append(node.name)
    # New nodes touch no variables, so their place does not matter.
    ready = [(place.get(name, -1), name) for name, count in waiting.items() if count == 0]
    heapq.heapify(ready)
    ordered = tf.compat.v1.GraphDef(versions=original.versions, library=graph.library)
    while ready:
        _, name = heapq.heappop(ready)
        node = ordered.node.add()
        node.CopyFrom(nodes[name])
        # A folded constant still waits for what it was made of: that is given, so it is there.
        kept = [i for i in node.input if not (i.startswith("^") and i[1:] in outside)]
        del node.input[:]
        node.input.extend(kept)
        for user in users[name]:
            waiting[user] -= 1
            if waiting[user] == 0:
                heapq.heappush(ready, (place.get(user, -1), user))
    return ordered if len(ordered.node) == len(nodes) else None
