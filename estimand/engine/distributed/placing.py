"""Arithmetic of updates, done on the server that holds the variable.

A v1 optimizer updates a variable by one op, which runs where the variable is. One of Keras is a
dozen ops, which would run on the worker: the variable and all that the optimizer keeps for it would
come there whole, and go back, for a few rows of gradients. Here an op goes to a server if all that
use its result are there, unless less is sent when it stays: what is computed from the batch alone
is sent when it is smallest. Nothing that is computed changes.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compat.v1 import GraphDef

from estimand.engine.rewriting.subgraph import data_of, op_of

WORKER = ""
SpecOf = Callable[[str], tf.TensorSpec | None]
# What takes about as long as to read what it is given: servers have more to do than arithmetic.
_CHEAP = """
Abs Add AddN AddV2 Any BroadcastTo Cast ClipByValue Div DivNoNan Equal Exp Fill GatherV2 Greater
GreaterEqual Identity IsFinite IsNan L2Loss Less LessEqual Log LogicalAnd LogicalNot LogicalOr Max
Maximum Mean Min Minimum Mul MulNoNan Neg NotEqual OnesLike Pow RealDiv Reciprocal Reshape Rsqrt
Select SelectV2 Sign Sqrt Square SquaredDifference StatelessIf StopGradient Sub Sum Tanh
UnsortedSegmentSum ZerosLike
"""
_CHEAP_OPS = frozenset(_CHEAP.split())


def placed(
    order: Sequence[str], nodes: Mapping[str, Any], fixed: Mapping[str, str], spec_of: SpecOf
) -> dict[str, str]:
    """For each op the server to run at, or the worker; `fixed` is where variables have it run.

    `order` has the names such that inputs come first.
    """
    users: dict[str, set[str]] = collections.defaultdict(set)  # by op
    takers: dict[str, set[str]] = collections.defaultdict(set)  # by tensor
    for name in order:
        for tensor in data_of(nodes[name]):
            users[op_of(tensor)].add(name)
            takers[tensor].add(name)
    places = dict(fixed)
    for name in reversed(order):
        if places[name] == WORKER and nodes[name].op in _CHEAP_OPS and not nodes[name].device:
            at = {places[user] for user in users[name]}
            places[name] = at.pop() if len(at) == 1 else WORKER
    for name in order:
        if places[name] == fixed[name]:
            continue
        given = [i for i in data_of(nodes[name]) if not _is_constant(i, nodes)]
        from_there = any(places.get(op_of(i), WORKER) == places[name] for i in given)
        only_here = {i for i in given if not _is_sent_anyway(i, name, takers, places)}
        if not from_there and _bytes(name, spec_of) <= sum(_bytes(i, spec_of) for i in only_here):
            places[name] = WORKER
    return places


def _is_sent_anyway(
    tensor: str, user: str, takers: Mapping[str, set[str]], places: Mapping[str, str]
) -> bool:
    return any(places[other] == places[user] for other in takers[tensor] - {user})


def _is_constant(tensor: str, nodes: Mapping[str, Any]) -> bool:
    return op_of(tensor) in nodes and nodes[op_of(tensor)].op == "Const"


def _bytes(tensor: str, spec_of: SpecOf) -> float:
    """The size, a batch of unknown length taken for a short one."""
    spec = spec_of(tensor)
    if spec is None or spec.shape.rank is None:
        return math.inf
    return math.prod(size or 1 for size in spec.shape) * spec.dtype.size


def put(part: GraphDef, fixed: Mapping[str, str], places: Mapping[str, str]) -> None:
    """Say in the ops of `part` where they run; constants they need are made there, too."""
    nodes = {node.name: node for node in part.node}
    copies: dict[tuple[str, str], str] = {}
    for node in list(part.node):
        place = places[node.name]
        if place == fixed[node.name]:
            continue
        node.device = place
        for number, tensor in enumerate(node.input):
            if not tensor.startswith("^") and _is_constant(tensor, nodes):
                key = (op_of(tensor), place)
                if key not in copies:
                    copies[key] = f"{op_of(tensor)}/estimand_copy_{len(copies)}"
                    copy = part.node.add()
                    copy.CopyFrom(nodes[op_of(tensor)])
                    copy.name, copy.device = copies[key], place
                node.input[number] = copies[key]
