"""Gradients of a few rows of a table, as one of the whole table, which the kernel of Adam takes.

Adam is not lazy: it moves all rows, those that are in no batch, too. So the gradients are added up
in a tensor as large as the table, mostly zeros, that fits into a cache while it is made.

Of a row that occurs several times in a batch, Keras 3 adds up the gradients for m, and their
squares for v. There the kernel, which squares what it is given, gets the root of the sum of
squares, and what m is to have beside that is added to those rows of m before. Adding to rows in
place puts a variable into a mode in which each read and each update copies it; TensorFlow has an op
that ends it. (To add the gradients of all rows to m and v in that way, and to have the kernel run
with zeros, takes longer: the rows are all over the memory.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compat.v1 import NodeDef

from estimand.engine.rewriting import averages
from estimand.engine.rewriting.averages import Moved, Rows
from estimand.engine.rewriting.subgraph import data_of, op_of
from estimand.engine.rewriting.workbench import Workbench

_INT32 = tf.int32.as_datatype_enum


def of_one_gradient(m: Moved, v: Moved, nodes: Mapping[str, Any]) -> Rows | None:
    """The rows of the gradient that m and v are averages of; None: they are of something else."""
    if m.rows is None or v.rows is None or m.rows.which != v.rows.which:
        return None
    if not averages.is_square_of(v.rows.values, m.rows.values, nodes):
        return None
    if not m.rows.squared_first:  # Where each row's were added up before: the same sum can do it.
        total, unique = nodes.get(op_of(m.rows.values)), nodes.get(op_of(m.rows.which))
        if total is not None and unique is not None and unique.op == "Unique":
            given = data_of(total)
            if total.op == "UnsortedSegmentSum" and given[1] == f"{unique.name}:1":
                return replace(m.rows, values=given[0], which=data_of(unique)[0])
    return m.rows


def fit(rows: Rows, variable: str, shape: tuple[int, ...], bench: Workbench) -> bool:
    """Whether they are rows of a table of this shape."""
    if bench.rank(rows.which) != 1 or bench.rank(rows.values) != len(shape):
        return False
    # As Keras 3 writes it, rows below zero are left out; adding to rows of m does not take them.
    return not rows.squared_first or _are_looked_up(rows, variable, bench)


def whole(
    node: NodeDef, rows: Rows, variable: str, shape: tuple[int, ...], bench: Workbench
) -> str:
    """The gradient of the whole table, for the update `node` of it."""
    kind, of_which = node.attr["dtype"].type, bench.type_of_elements(rows.which)
    waits = []
    # A row that is out of range fails where it is added to; a sum may leave it out.
    if not _are_looked_up(rows, variable, bench):
        types = {"dtype": kind, "Tindices": of_which}
        given = [variable, rows.which]
        waits = ["^" + bench.new(node, "estimand_lookup", "ResourceGather", given, **types)]
    count = bench.constant(node, "estimand_rows", np.int32(shape[0]), tf.int32)
    types = {"T": kind, "Tindices": of_which, "Tnumsegments": _INT32}
    given = [rows.values, rows.which, count, *waits]
    return bench.new(node, "estimand_gradient", "UnsortedSegmentSum", given, **types)


class Repeats:
    """Of the gradients of rows, those of rows that occur several times, for an update `node`."""

    def __init__(self, node: NodeDef, rows: Rows, bench: Workbench) -> None:
        self._node, self._bench = node, bench
        self._kind = node.attr["dtype"].type
        self._of_which = bench.type_of_elements(rows.which)
        times = self._times(rows.which)
        one = self._bench.constant(node, "estimand_repeats/one", np.int32(1), tf.int32)
        several = self._new("several", "Greater", [times, one], T=_INT32)
        places = self._new("places", "Where", [several], T=tf.bool.as_datatype_enum)
        values = self._chosen("values", rows.values, places, self._kind)
        which = self._chosen("which", rows.which, places, self._of_which)
        types = {"T": self._of_which, "out_idx": _INT32}
        self.rows = self._new("rows", "Unique", [which], **types)
        self._sum_of_squares = self._sum("sum_of_squares", self._square(values))

    def with_roots(self, gradient: str) -> tuple[str, str]:
        """A gradient with the roots of sums of squares in place of sums; what they are less."""
        zero = self._bench.constant(self._node, "estimand_repeats/axis", np.int32(0), tf.int32)
        types = {"Tparams": self._kind, "Tindices": self._of_which, "Taxis": _INT32}
        sums = self._new("sums", "GatherV2", [gradient, self.rows, zero], **types)
        roots = self._new("roots", "Sqrt", [self._sum_of_squares], T=self._kind)
        less = self._new("less", "Sub", [sums, roots], T=self._kind)
        rows = self.rows
        if self._of_which != _INT32:
            rows = self._new("rows_32", "Cast", [rows], SrcT=self._of_which, DstT=_INT32)
        # In place, for nobody else has it; after its sums were looked at.
        given = [gradient, rows, roots, f"^{sums}"]
        return self._new("gradient", "InplaceUpdate", given, T=self._kind), less

    def add(self, less: str, average: str, moved: Moved, waits: Sequence[str]) -> str:
        """Add to an average what the kernel is going to make its share of; what to wait for."""
        dtype = tf.dtypes.as_dtype(self._kind)
        factor = moved.share / moved.kept
        name = self._bench.constant(self._node, "estimand_repeats/factor", factor, dtype)
        added = self._new("added", "Mul", [less, name], T=self._kind)
        types = {"dtype": self._kind, "Tindices": self._of_which}
        given = [average, self.rows, added, *waits]
        scatter = self._new("add", "ResourceScatterAdd", given, **types)
        return "^" + self._new("in_place", "DisableCopyOnRead", [average, f"^{scatter}"])

    def _times(self, which: str) -> str:
        """How many times each of these rows is among them."""
        types = {"T": self._of_which, "out_idx": _INT32}
        counted = self._new("counted", "UniqueWithCounts", [which], **types)
        zero = self._bench.constant(self._node, "estimand_repeats/first", np.int32(0), tf.int32)
        types = {"Tparams": _INT32, "Tindices": _INT32, "Taxis": _INT32}
        given = [f"{counted}:2", f"{counted}:1", zero]
        return self._new("times", "GatherV2", given, **types)

    def _chosen(self, name: str, given: str, places: str, kind: int) -> str:
        types = {"Tparams": kind, "Tindices": tf.int64.as_datatype_enum}
        return self._new(name, "GatherNd", [given, places], **types)

    def _square(self, values: str) -> str:
        return self._new("squares", "Square", [values], T=self._kind)

    def _sum(self, name: str, values: str) -> str:
        """The sum for each of `rows`."""
        types = {"T": self._of_which, "out_type": _INT32}
        count = self._new("count", "Size", [self.rows], **types)
        types = {"T": self._kind, "Tindices": _INT32, "Tnumsegments": _INT32}
        return self._new(name, "UnsortedSegmentSum", [values, f"{self.rows}:1", count], **types)

    def _new(self, name: str, op: str, inputs: Sequence[str], **types: int) -> str:
        return self._bench.new(self._node, f"estimand_repeats/{name}", op, inputs, **types)


def _are_looked_up(rows: Rows, variable: str, bench: Workbench) -> bool:
    """Whether a lookup in the table has found all of these rows before their values are there."""
    return _is_looked_up(rows.which, variable, op_of(rows.values), bench)


def _is_looked_up(which: str, variable: str, before: str, bench: Workbench) -> bool:
    node = bench.nodes.get(op_of(which))
    kind, given = (None, [which]) if node is None else (node.op, data_of(node))
    if kind in ("ConcatV2", "Reshape", "Unique"):
        parts_of_it = given[:-1] if kind == "ConcatV2" else given[:1]
        return all(_is_looked_up(i, variable, before, bench) for i in parts_of_it)
    lookups = [n for n in bench.uses.of.get(op_of(variable), ()) if n.op == "ResourceGather"]
    of_these_rows = [n for n in lookups if which in data_of(n)[1:]]
    return any(bench.uses.runs_before(n.name, before) for n in of_these_rows)
