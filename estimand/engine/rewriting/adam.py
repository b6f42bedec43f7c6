"""Adam, in few passes over memory.

Where a step ends with `variable - m * rate / (sqrt(v) + epsilon)` and has moved both averages as
Adam does (`averages`), TensorFlow's kernel of Adam does all of it. It is given `1 - share` in 32
bits, from which it computes shares of 0.10000002 and 0.00099998713 for 0.1 and 0.001: so v comes
out up to 1.3e-5 of itself beside what Keras' ops give (and as v1 and Keras 2 have it).

Where the averages were moved in another way, the end by itself is what the kernel of Adagrad does
when it is told to leave `v` as it is: each number with the same roundings in the same order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compat.v1 import NodeDef

from estimand.engine.rewriting import averages, row_gradients, subgraph
from estimand.engine.rewriting.averages import Moved
from estimand.engine.rewriting.subgraph import data_of, op_of
from estimand.engine.rewriting.workbench import Workbench

_ADAM, _ADAGRAD = "ResourceApplyAdam", "ResourceApplyAdagradV2"


@dataclass(frozen=True)
class _End:
    """`variable -= m * rate / (sqrt(v) + epsilon)`, where m and v are variables, too."""

    node: Any
    variable: str
    m: Any  # as it is read
    v: Any
    rate: str
    epsilon: str
    shape: tuple[int, ...]


def replace(node: NodeDef, bench: Workbench) -> None:
    """Replace an update if it is the end of Adam, and what leads to it."""
    end = _end(node, bench)
    if end is None:
        return
    m, v = (averages.moved(r.input[0], bench.nodes, bench.uses) for r in (end.m, end.v))
    if m is None or v is None or not _one_kernel(end, m, v, bench):
        _divide_by_root(end, bench)


def _end(node: NodeDef, bench: Workbench) -> _End | None:
    handle, value = data_of(node)
    quotient = bench.op(value, "RealDiv", node)
    if quotient is None:
        return None
    above, below = data_of(quotient)
    product, total = bench.op(above, "Mul", node), bench.op(below, "AddV2", node)
    if product is None or total is None:
        return None
    moved = _read_and_scalar(product, node, bench)
    root, epsilon = data_of(total)
    root_node = bench.op(root, "Sqrt", node)
    if moved is None or root_node is None or bench.shape(epsilon) != ():
        return None
    m, rate = moved
    v = bench.last_read(data_of(root_node)[0], node)
    shape = bench.shape(value)
    if v is None or shape is None or {bench.shape(m.name), bench.shape(v.name)} != {shape}:
        return None
    return _End(node, handle, m, v, rate, epsilon, shape)


def _read_and_scalar(product: NodeDef, node: NodeDef, bench: Workbench) -> tuple[Any, str] | None:
    for tensor, factor in (data_of(product), data_of(product)[::-1]):
        read = bench.last_read(tensor, node)
        if read is not None and bench.shape(factor) == ():
            return read, factor
    return None


def _one_kernel(end: _End, m: Moved, v: Moved, bench: Workbench) -> bool:
    """Have the kernel of Adam move the averages as well; whether it can."""
    if op_of(end.m.input[0]) == op_of(end.v.input[0]):
        return False
    if averages.number(end.rate, bench.nodes) == 1:
        return False  # such a product is there or not, depending on who looks at it
    changes = _changes(end, m, v, bench)
    if changes is None:
        return False
    writers = [*m.written_by, *v.written_by]
    needed = [end.rate, end.epsilon, *changes]
    ways = subgraph.waits_up_to([end.node, *writers], needed, bench.nodes)
    waits = [w for w in ways if op_of(w) not in {writer.name for writer in writers}]
    inside = [op_of(n) for n in [*needed, *waits] if op_of(n) in bench.nodes]
    # Whoever waits for a writer is going to wait for the kernel: that must not be its own input.
    later = [*bench.replaced_writers, *(w.name for w in writers)]
    if any(bench.uses.runs_before(w, n) for w in later for n in inside):
        return False
    _make_kernel(end, m, v, waits, bench)
    bench.replaced_writers += [w.name for w in writers]
    for writer in writers:
        waiting = subgraph.new_node(writer.name, "NoOp", [f"^{end.node.name}"], writer)
        writer.CopyFrom(waiting)
    return True


def _changes(end: _End, m: Moved, v: Moved, bench: Workbench) -> list[str] | None:
    """What the kernel is to be given, directly or not; None: it could not be."""
    if _is_of_whole(end, m, v, bench):
        return [str(m.whole)]
    rows = row_gradients.of_one_gradient(m, v, bench.nodes)
    if rows is None or not row_gradients.fit(rows, end.variable, end.shape, bench):
        return None
    return [rows.values, rows.which]


def _is_of_whole(end: _End, m: Moved, v: Moved, bench: Workbench) -> bool:
    """Whether the averages are those of one gradient of the whole variable."""
    if m.whole is None or v.whole is None or bench.shape(m.whole) != end.shape:
        return False
    return averages.is_square_of(v.whole, m.whole, bench.nodes)


def _make_kernel(end: _End, m: Moved, v: Moved, waits: Sequence[str], bench: Workbench) -> None:
    node, dtype = end.node, tf.dtypes.as_dtype(end.node.attr["dtype"].type)
    of_m, of_v = end.m.input[0], end.v.input[0]
    waits = list(waits)
    rows = row_gradients.of_one_gradient(m, v, bench.nodes)
    if _is_of_whole(end, m, v, bench) or rows is None:
        gradient = str(m.whole)
    else:
        gradient = row_gradients.whole(node, rows, end.variable, end.shape, bench)
        if rows.squared_first:
            repeats = row_gradients.Repeats(node, rows, bench)
            gradient, less = repeats.with_roots(gradient)
            waits.append(repeats.add(less, of_m, m, waits))
    keeps = [("estimand_beta_1", m.kept), ("estimand_beta_2", v.kept)]
    betas = [bench.constant(node, name, kept, dtype) for name, kept in keeps]
    none = bench.constant(node, "estimand_no_power", np.zeros((), dtype.as_numpy_dtype), dtype)
    given = [end.variable, of_m, of_v, none, none, end.rate, *betas, end.epsilon, gradient]
    bench.become(node, _ADAM, given, waits)


def _divide_by_root(end: _End, bench: Workbench) -> None:
    node, m, rate, epsilon = end.node, end.m.name, end.rate, end.epsilon
    waits = subgraph.waits_up_to([node], [m, rate, epsilon], bench.nodes)
    bench.become(node, _ADAGRAD, [end.variable, end.v.input[0], rate, epsilon, m], waits)
    node.attr["update_slots"].b = False  # v stays as it is
