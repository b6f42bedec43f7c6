"""Computations that a step asks for more than once, done once.

Keras computes the same correction of Adam for every variable, and reads the same learning rate.
Equal ops with equal inputs give equal bits, so one of them is enough, whoever looks.
"""

from __future__ import annotations

from typing import Any

from tensorflow.compat.v1 import NodeDef

from estimand.engine.rewriting import op_kinds
from estimand.engine.rewriting.subgraph import in_order, is_plain_read, op_of, set_inputs


def merge(nodes: dict[str, NodeDef]) -> None:
    """Have all users of equal ops use the first of them.

    Of one that is fetched, too: which form a step has must not depend on what is looked at.
    """
    first: dict[Any, str] = {}
    instead: dict[str, str] = {}
    for node in in_order(nodes):
        _use(node, instead)
        if not (op_kinds.is_pure(node) or is_plain_read(node)):
            continue
        key = (node.op, tuple(node.input), node.device, _attributes(node))
        known = first.setdefault(key, node.name)
        if known != node.name:
            instead[node.name] = known


def _use(node: NodeDef, instead: dict[str, str]) -> None:
    if not any(op_of(i) in instead for i in node.input):
        return
    inputs = []
    for name in node.input:
        op = op_of(name)
        wait, output = name[: name.startswith("^")], name.lstrip("^")[len(op) :]
        inputs.append(f"{wait}{instead.get(op, op)}{output}")
    data = [i for i in inputs if not i.startswith("^")]
    set_inputs(node, data, [i for i in inputs if i.startswith("^")])


def _attributes(node: NodeDef) -> tuple[tuple[str, bytes], ...]:
    return tuple(
        (key, value.SerializeToString(deterministic=True))
        for key, value in sorted(node.attr.items())
        if not key.startswith("_output_shapes")
    )
