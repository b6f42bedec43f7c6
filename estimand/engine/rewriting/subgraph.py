"""A copied part of a graph, as its nodes: what the rewrites of a step look up in it."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compat.v1 import NodeDef

from estimand.engine.rewriting import op_kinds

_READ_ONLY = "_read_only_resource_inputs"
# They use a variable without changing it.
_LOOKING = op_kinds.READS | {"ResourceGather", "ResourceGatherNd"}


class Uses:
    """Who uses what in `nodes`, as they are now: made anew after a rewrite."""

    def __init__(self, nodes: Mapping[str, NodeDef]) -> None:
        self._nodes = nodes
        self.of: dict[str, list[Any]] = {}  # by op or variable that is used
        self.waiting: dict[str, list[Any]] = {}  # by op that is waited for
        for node in nodes.values():
            for name in dict.fromkeys(node.input):
                kind = self.waiting if name.startswith("^") else self.of
                kind.setdefault(op_of(name), []).append(node)
        self.place = {name: i for i, name in enumerate(nodes)}

    def writers(self, handle: str) -> list[Any]:
        """The ops that may change a variable, in program order."""
        users = self.of.get(op_of(handle), ())
        return [n for n in users if n.op not in _LOOKING and not _only_reads(n, handle)]

    @cached_property
    def _before(self) -> dict[str, int]:
        """As bits: all that has run whenever an op runs, itself included."""
        done: dict[str, int] = {}
        for node in in_order(self._nodes):
            bits = 1 << self.place[node.name]
            for name in map(op_of, node.input):
                bits |= done.get(name, 0)
            done[node.name] = bits
        return done

    def runs_before(self, first: str, then: str) -> bool:
        """Whether `then` depends on `first`, or is it."""
        return bool(self._before.get(then, 0) >> self.place[first] & 1)


def _only_reads(node: NodeDef, handle: str) -> bool:
    """Whether a condition, loop or call does not change a variable that it is given."""
    if _READ_ONLY not in node.attr:
        return False
    given = {i for i, name in enumerate(node.input) if op_of(name) == op_of(handle)}
    return given <= set(node.attr[_READ_ONLY].list.i)


def op_of(name: str) -> str:
    """The name of the op in a reference to one of its outputs, or to itself."""
    return name.lstrip("^").split(":")[0]


def tensor(name: str) -> str:
    """A reference to a tensor as its name, with the number of the output."""
    return name if ":" in name else f"{name}:0"


def data_of(node: NodeDef) -> list[str]:
    return [i for i in node.input if not i.startswith("^")]


def waits_of(node: NodeDef) -> list[str]:
    return [i for i in node.input if i.startswith("^")]


def waits_up_to(
    ends: Iterable[Any], inputs: Iterable[str], nodes: Mapping[str, NodeDef]
) -> list[str]:
    """All that is waited for on the way from `inputs` to `ends`, themselves included.

    What takes the place of the ops on that way, and is given `inputs`, has to wait for it, too: a
    check that somebody put in there would not be made.
    """
    seen = {op_of(name) for name in inputs}
    waits: dict[str, None] = {}
    stack = list(ends)
    while stack:
        node = stack.pop()
        waits |= dict.fromkeys(waits_of(node))
        new = {op_of(name) for name in data_of(node)} - seen
        seen |= new
        stack += [nodes[name] for name in sorted(new) if name in nodes]
    return list(waits)


def is_plain_read(node: NodeDef) -> bool:
    """Whether a variable is read before anything of the step has happened."""
    return node.op == "ReadVariableOp" and len(node.input) == 1


def set_inputs(node: NodeDef, data: Iterable[str], waits: Iterable[str]) -> None:
    del node.input[:]
    node.input.extend([*data, *dict.fromkeys(waits)])


def new_node(name: str, op: str, inputs: Iterable[str], like: NodeDef, **types: int) -> Any:
    """A node on the device of another one; `types` are attributes."""
    node = tf.compat.v1.NodeDef(name=name, op=op, device=like.device)
    node.input.extend(inputs)
    for key, value in types.items():
        node.attr[key].type = value
    return node


def constant(name: str, value: Any, dtype: tf.DType) -> Any:
    node = tf.compat.v1.NodeDef(name=name, op="Const")
    node.attr["dtype"].type = dtype.as_datatype_enum
    node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value, dtype, np.shape(value)))
    return node


def put_before(nodes: dict[str, NodeDef], added: Mapping[str, Collection[Any]]) -> None:
    """Insert nodes, each before the one that it was made for: the order is program order."""
    if not added:
        return
    everything = dict(nodes)
    nodes.clear()
    for name, node in everything.items():
        nodes.update({new.name: new for new in added.get(name, ())})
        nodes[name] = node


def in_order(nodes: Mapping[str, NodeDef]) -> list[Any]:
    """Each op after those it needs. (Ops may have been given inputs after they were made.)"""
    placed: dict[str, None] = {}
    for first in nodes:
        stack = [first]
        while stack:
            name = stack[-1]
            before = [i for i in map(op_of, nodes[name].input) if i in nodes and i not in placed]
            if name in placed or not before:
                placed[stack.pop()] = None
            else:
                stack += before
    return [nodes[name] for name in placed]


def drop_colocation(node: Any, gone: Container[str]) -> None:
    """Let a node be placed beside what is there only: some ops are not in its graph."""
    if "_class" not in node.attr:
        return
    places = node.attr["_class"].list.s
    kept = [place for place in places if place.decode().removeprefix("loc:@") not in gone]
    if len(kept) < len(places):
        del node.attr["_class"]
        if kept:
            node.attr["_class"].list.s.extend(kept)
