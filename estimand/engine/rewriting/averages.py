"""How a step moves the averages of an optimizer: which share of them it replaces, and by what.

An average of gradients, or of their squares, becomes `(1 - share) * average + share * change`.
Adam is written in three ways:

- Keras 3, and tf_keras where gradients are dense: `average += (change - average) * share`. Of the
  rows of a table the changes are added up first, as a tensor of the table's shape;
- v1: `average = average * (1 - share)`, then `rows of average += change * share`;
- tf_keras on rows: `average += -average * share`, then the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compat.v1 import NodeDef

from estimand.engine.rewriting.subgraph import Uses, data_of, op_of

# TensorFlow's kernel is given `1 - share`, and computes the share from that. How far it may be off:
# with 32-bit numbers it is 1.3e-5 of the usual share of 0.001, and 2e-7 of 0.1.
_MOST_OFF = 1e-4


@dataclass(frozen=True)
class Rows:
    """Changes of rows, which may occur several times; then they are added up."""

    values: str
    which: str
    squared_first: bool = False  # whether v has the sum of squares, and not the square of the sum


@dataclass(frozen=True)
class Moved:
    """How an average was moved."""

    share: Any  # a number, of the type of the variable
    written_by: tuple[Any, ...]
    whole: str | None  # the change of the whole variable, where there is such a tensor
    rows: Rows | None  # what was added to which of its rows, where that is known

    @property
    def kept(self) -> Any:
        return type(self.share)(1) - self.share


def moved(handle: str, nodes: Mapping[str, Any], uses: Uses) -> Moved | None:
    """How the step moves an average; None: in another way, or not as exactly as it has to be."""
    writers = uses.writers(handle)
    found = None
    if [w.op for w in writers] == ["AssignAddVariableOp"]:
        found = _at_once(writers[0], nodes)
    elif len(writers) == 2 and uses.runs_before(writers[0].name, writers[1].name):
        found = _by_rows(writers[0], writers[1], nodes)
    return found if found is not None and _is_exact(found) else None


def is_square_of(product: str, factor: str, nodes: Mapping[str, Any]) -> bool:
    node = nodes.get(op_of(product))
    if node is None:
        return False
    squared = node.op == "Mul" and data_of(node) == [factor, factor]
    return squared or (node.op == "Square" and data_of(node) == [factor])


def number(name: str, nodes: Mapping[str, Any]) -> Any | None:
    """The value of a tensor that is one constant number."""
    node = nodes.get(op_of(name))
    if node is None or node.op != "Const":
        return None
    value = tf.make_ndarray(node.attr["value"].tensor)
    return value[()] if value.shape == () else None


def _at_once(assign: NodeDef, nodes: Mapping[str, Any]) -> Moved | None:
    handle, value = data_of(assign)
    product = _constant_product(value, nodes)
    difference = None if product is None else nodes.get(op_of(product[0]))
    if product is None or difference is None or difference.op != "Sub":
        return None
    change, average = data_of(difference)
    if not _reads(average, handle, nodes):
        return None
    total = nodes.get(op_of(change))
    rows = None
    if total is not None and total.op == "UnsortedSegmentSum":
        values, which, _ = data_of(total)
        rows = Rows(values, which, squared_first=True)
    return Moved(product[1], (assign,), change, rows)


def _by_rows(assign: NodeDef, scatter: NodeDef, nodes: Mapping[str, Any]) -> Moved | None:
    if scatter.op != "ResourceScatterAdd":
        return None
    kept = _constant_product(data_of(assign)[1], nodes)
    handle, rows, values = data_of(scatter)
    added = _constant_product(values, nodes)
    if kept is None or added is None:
        return None
    (average, factor), (change, share) = kept, added
    if assign.op == "AssignAddVariableOp":
        negative = nodes.get(op_of(average))
        if negative is None or negative.op != "Neg" or factor != share:
            return None
        average = data_of(negative)[0]
    elif assign.op != "AssignVariableOp" or share != type(factor)(1) - factor:
        return None
    if not _reads(average, handle, nodes):
        return None
    return Moved(share, (assign, scatter), None, Rows(change, rows))


def _is_exact(found: Moved) -> bool:
    # A product with one is there or not, depending on who looks at it. And an average of nothing
    # but the newest gradient would not be that gradient: `m + (gradient - m)` is rounded.
    if not 0 < found.share < 1 or not 0 < found.kept < 1:
        return False
    off = float(type(found.share)(1) - found.kept) - float(found.share)
    return abs(off) <= _MOST_OFF * float(found.share)


def _reads(name: str, handle: str, nodes: Mapping[str, Any]) -> bool:
    node = nodes.get(op_of(name))
    return node is not None and node.op == "ReadVariableOp" and data_of(node) == [handle]


def _constant_product(name: str, nodes: Mapping[str, Any]) -> tuple[str, Any] | None:
    """A tensor, and the constant number by which it is multiplied."""
    product = nodes.get(op_of(name))
    if product is None or product.op != "Mul":
        return None
    for tensor, factor in (data_of(product), data_of(product)[::-1]):
        value = number(factor, nodes)
        if value is not None and isinstance(value, np.floating):
            return tensor, value
    return None
