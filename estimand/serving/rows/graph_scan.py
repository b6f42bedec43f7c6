"""What a graph's operations say about how it may be run."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.compat.v1 import GraphDef, NodeDef

# The single-threaded executor knows neither TF1's control flow nor reference variables.
_V1_ONLY = re.compile(
    r"(Ref)?(Switch|Merge|Enter|Exit|NextIteration|Select)$|LoopCond$|Variable(V2)?$|"
    r"TemporaryVariable$|RefIdentity$|Assign(Add|Sub)?$|Scatter(Update|Add|Sub|Mul|Div|Min|Max)$"
)
_V1_ONLY_EXCEPT = frozenset({"Select"})
# Whoever runs one of these changes what a later call answers, or answers differently each time.
_CHANGES_STATE = re.compile(
    r"Assign|Resource(Sparse|Scatter)?Apply|ResourceScatter|^Scatter(Update|Add|Sub|Mul|Div)|"
    r"^(?!Stateless).*Random|^Multinomial|Stateful(Standard|Uniform|Truncated|Random)|"
    r"LookupTable(Insert|Import|Remove)|Queue|^Stack(Push|Pop)|Barrier|PyFunc|^Rng|CountUpTo"
)

# What stands still until something comes: another call, a callback, data.
_MAY_WAIT = re.compile(
    r"Dequeue|Barrier|Recv|Collective|PyFunc|GetNext|Unstage|^OrderedMap|^Map(Peek|Unstage)|"
    r"^(Ref)?NextIteration$"
)
_LOOPS = frozenset({"While", "StatelessWhile", "For"})


def may_wait(op: str) -> bool:
    """Whether an operation of this type may never end."""
    return bool(_MAY_WAIT.search(op))


def is_loop(op: str) -> bool:
    return op in _LOOPS


def has_loops(graph: GraphDef) -> bool:
    return any(is_loop(node.op) or may_wait(node.op) for node in _all_nodes(graph))


def needs_default_executor(graph: GraphDef) -> bool:
    """Whether the graph has operations that the single-threaded executor refuses."""
    return any(
        _V1_ONLY.match(node.op) and node.op not in _V1_ONLY_EXCEPT for node in _all_nodes(graph)
    )


def places_beside_the_cpu(graph: GraphDef) -> bool:
    """Whether any operation is placed on a device that is no CPU."""
    devices = {node.device for node in _all_nodes(graph)} - {""}
    return any(
        tf.DeviceSpec.from_string(device).device_type not in (None, "CPU") for device in devices
    )


def changes_state(graph: GraphDef, fetches: Iterable[str]) -> bool:
    """Whether computing these tensors may change variables or tables, or draws random numbers."""
    return any(_CHANGES_STATE.search(node.op) for node in reachable(graph, fetches))


def _all_nodes(graph: GraphDef) -> Iterator[Any]:
    yield from graph.node
    for function in graph.library.function:
        yield from function.node_def


def reachable(graph: GraphDef, fetches: Iterable[str]) -> Iterator[Any]:
    nodes = {node.name: node for node in graph.node}
    functions = {function.signature.name: function for function in graph.library.function}
    waiting = [name.partition(":")[0] for name in fetches]
    seen = set(waiting)
    called: set[str] = set()
    while waiting:
        node = nodes.get(waiting.pop())
        if node is None:
            continue
        yield node
        yield from _inside_functions(node, functions, called)
        for name in node.input:
            name = name.lstrip("^").partition(":")[0]
            if name not in seen:
                seen.add(name)
                waiting.append(name)


def _inside_functions(node: NodeDef, functions: dict[str, Any], called: set[str]) -> Iterator[Any]:
    waiting = [node]
    while waiting:
        for value in waiting.pop().attr.values():
            for function in (value.func, *value.list.func):
                name = function.name
                if name and name in functions and name not in called:
                    called.add(name)
                    yield from functions[name].node_def
                    waiting.extend(functions[name].node_def)
