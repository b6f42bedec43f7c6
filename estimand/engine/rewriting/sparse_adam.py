"""v1's Adam on the rows of a table, as its one kernel does it.

Given the gradients of a few rows, `tf.compat.v1.train.AdamOptimizer` multiplies both averages of
the whole table, adds to those rows in place, and then updates the whole table. It is not lazy, and
dear: adding to rows in place puts a variable, for good, into a mode in which each read and each
assignment copies it. Its kernel for dense gradients does the same arithmetic (an average is moved
by `(gradient - m) * (1 - beta)` in place of `m * beta + gradient * (1 - beta)`) in one go, at a
quarter of the time with a gradient that is mostly zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compat.v1 import NodeDef

from estimand.engine.rewriting import subgraph
from estimand.engine.rewriting.subgraph import Uses, data_of, op_of


@dataclass(frozen=True)
class Moved:
    """How an average was moved: by what share it was kept, and what was added to which rows."""

    beta: str
    rows: str  # which
    added: str  # after it was multiplied by 1 - beta
    written_by: tuple[Any, Any]


def moved(handle: str, nodes: Mapping[str, Any], uses: Uses) -> Moved | None:
    """How the step moves an average of the table; None: in another way."""
    writers = uses.writers(handle)
    if [w.op for w in writers] != ["AssignVariableOp", "ResourceScatterAdd"]:
        return None
    assign, scatter = writers
    if not uses.runs_before(assign.name, scatter.name):
        return None
    kept = _constant_product(data_of(assign)[1], nodes)
    _, rows, values = data_of(scatter)
    added = _constant_product(values, nodes)
    if kept is None or added is None:
        return None
    (read, beta), (change, share) = kept, added
    read_node = nodes.get(op_of(read))
    if read_node is None or list(read_node.input) != [handle]:
        return None
    one = np.ones((), _value(beta, nodes).dtype)
    if _value(share, nodes) != one - _value(beta, nodes):
        return None
    # A product with one is there or not, depending on who looks at it. And an average of nothing
    # but the newest gradient would not be that gradient: `m + (gradient - m)` is rounded.
    if one in (_value(share, nodes), _value(beta, nodes)):
        return None
    return Moved(beta, rows, change, (assign, scatter))


def is_square_of(product: str, factor: str, nodes: Mapping[str, Any]) -> bool:
    node = nodes.get(op_of(product))
    if node is None:
        return False
    squared = node.op == "Mul" and data_of(node) == [factor, factor]
    return squared or (node.op == "Square" and data_of(node) == [factor])


def values_and_rows(m: Moved, nodes: Mapping[str, Any]) -> tuple[str, str]:
    """What to add up, and for which rows; these may occur several times."""
    # Where those were added up first: that can be done in the same sum.
    total, unique = nodes.get(op_of(m.added)), nodes.get(op_of(m.rows))
    if total is not None and unique is not None and unique.op == "Unique":
        given = data_of(total)
        if total.op == "UnsortedSegmentSum" and given[1] == f"{unique.name}:1":
            return given[0], data_of(unique)[0]
    return m.added, m.rows


def summed_rows(
    name: str, m: Moved, values: str, rows: str, like: NodeDef, shape: tuple[int, ...]
) -> list[Any]:
    """Nodes that compute the gradient of the whole table; the last one gives it."""
    count = subgraph.constant(f"{name}/rows", np.int32(shape[0]), tf.int32)
    total = subgraph.new_node(
        name,
        "UnsortedSegmentSum",
        [values, rows, count.name],
        like,
        T=like.attr["dtype"].type,
        Tindices=m.written_by[1].attr["Tindices"].type,
        Tnumsegments=tf.int32.as_datatype_enum,
    )
    return [count, total]


def are_looked_up(
    rows: str, handle: str, before: str, nodes: Mapping[str, Any], uses: Uses
) -> bool:
    """Whether a lookup in the table has found all of these rows, before an op runs.

    A row that is out of range fails in a lookup, as where it is added to; the kernel leaves it out.
    """
    node = nodes.get(op_of(rows))
    kind, given = (None, [rows]) if node is None else (node.op, data_of(node))
    if kind in ("ConcatV2", "Reshape", "Unique"):
        parts_of_it = given[:-1] if kind == "ConcatV2" else given[:1]
        return all(are_looked_up(i, handle, before, nodes, uses) for i in parts_of_it)
    lookups = [n for n in uses.of.get(op_of(handle), ()) if n.op == "ResourceGather"]
    of_these_rows = [n for n in lookups if rows in data_of(n)[1:]]
    return any(uses.runs_before(n.name, before) for n in of_these_rows)


def lookup(name: str, m: Moved, handle: str, rows: str, like: NodeDef) -> Any:
    """A node that fails where one of the rows is out of range."""
    types = {"dtype": like.attr["dtype"].type, "Tindices": m.written_by[1].attr["Tindices"].type}
    return subgraph.new_node(name, "ResourceGather", [handle, rows], like, **types)


def _constant_product(name: str, nodes: Mapping[str, Any]) -> tuple[str, str] | None:
    """A tensor and the constant number by which it is multiplied."""
    product = nodes.get(op_of(name))
    if product is None or product.op != "Mul":
        return None
    for tensor, factor in (data_of(product), data_of(product)[::-1]):
        value = _value(factor, nodes)
        if value is not None and value.shape == ():
            return tensor, factor
    return None


def _value(name: str, nodes: Mapping[str, Any]) -> Any:
    node = nodes.get(op_of(name))
    if node is None or node.op != "Const":
        return None
    return tf.make_ndarray(node.attr["value"].tensor)
