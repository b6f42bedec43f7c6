"""What a step may be put to: one gate for each way of running it, over all that the step calls.

Each of them lets through what is known to be safe, in the graph and in every function, branch
and body that it calls; and says why not of anything else.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compat.v1 import NodeDef

from estimand.core import tf_private
from estimand.engine.rewriting import conditions, op_kinds, subgraph, v1_control_flow
from estimand.engine.rewriting.op_kinds import call_tree
from estimand.engine.running.batch_checks import BatchChecks
from estimand.engine.tracing.trace import Trace
from estimand.engine.variables import effects
from estimand.engine.variables.placement import copies

Targets = Iterable[tf.Operation | tf.Tensor]
_Placed = tuple[set[str], str | None]

# Stateful in TensorFlow's books, but nothing outside of the step can see that they ran: they
# fail, stand for a variable or a table, or are given from outside.
_UNSEEN = frozenset(
    {"Assert", "HashTable", "HashTableV2", "Placeholder", "VarHandleOp", "_Arg", "_Retval"}
)
_PYTHON = ("PyFunc", "EagerPyFunc")
# An index out of range is an error in TensorFlow; XLA takes the nearest one.
_UNCHECKED = (
    "EmptyTensorList", "Gather", "ResourceGather", "ResourceScatter", "Scatter", "Slice",
    "StridedSlice", "TensorList", "TensorScatter",
)  # fmt: skip
# XLA draws other numbers from the same key.
_OTHER_NUMBERS = ("StatelessRandom", "StatelessTruncatedNormal")


def needed(targets: Targets) -> list[tf.Operation]:
    """All ops of the graph that `targets` depend on."""
    return list(effects.ancestors(getattr(t, "op", t) for t in targets).values())


def device_problem(trace: Trace) -> str | None:
    """Why only TensorFlow's ordinary executor can run a trace; None: it is all on one CPU.

    The single-threaded executor knows one device, and that a CPU; what was not placed by the
    user goes to a GPU as soon as there is one.
    """
    if trace.has_remote_variables or trace.distribution.is_strategy:
        return "its variables are on several devices, or in other processes"
    present = {device.device_type for device in tf.config.list_logical_devices()} - {"CPU"}
    if present:
        return f"TensorFlow sees a {sorted(present)[0]} here"
    variables = [copy for v in trace.variables.by_name.values() for copy in copies(v)]
    placed, problem = _placed(trace.graph)
    if problem is not None:
        return problem
    for where in placed | {v.device for v in variables}:
        device = tf.DeviceSpec.from_string(where)
        if (device.device_type or "CPU", device.device_index or 0) != ("CPU", 0):
            return f"part of it is placed on {where}"
        if device.job not in (None, "localhost"):
            return f"part of it is in another process ({where})"
    return None


# Every evaluation asks; a graph that has as many ops as before is what it was.
_placed_before: weakref.WeakKeyDictionary[tf.Graph, tuple[int, _Placed]] = (
    weakref.WeakKeyDictionary()
)


def _placed(graph: tf.Graph) -> _Placed:
    """The devices that ops of a graph name, up to the first that is a problem, and that problem."""
    size = len(graph.get_operations())
    known, placed = _placed_before.get(graph, (None, None))
    if placed is None or known != size:
        placed = _look_for_devices(graph)
        _placed_before[graph] = size, placed
    return placed


def _look_for_devices(graph: tf.Graph) -> _Placed:
    placed = set()
    for node in call_tree(graph):
        placed.add(node.device)
        problem = conditions.problem(node) or v1_control_flow.problem(node)
        if problem is not None:
            return placed, problem
    return placed, None


def trial_problem(trace: Trace, targets: Targets) -> str | None:
    """Why steps cannot be run for a trial and undone; None: nobody would see it."""
    ops = needed(targets)
    for node in call_tree(trace.graph, ops):
        known = (
            node.op in _UNSEEN
            or node.op in op_kinds.CALLS
            or op_kinds.only_looks_up(node.op)
            or op_kinds.uses_variables_whole(node.op)
            or op_kinds.uses_rows_of_variables(node.op)
        )
        if node.op.startswith(_PYTHON):
            return f"it runs Python code ({node.name})"
        if not known and tf_private.is_stateful(node.op):
            return f"the effects of {node.op} ({node.name}) could not be undone"
    return _foreign_resource(trace, ops)


def _foreign_resource(trace: Trace, ops: Sequence[tf.Operation]) -> str | None:
    """What the step may change and a trial would not put back, if there is something."""
    ours = {id(c.handle) for v in trace.variables.by_name.values() for c in copies(v)}
    if trace.draws is not None:
        ours |= {id(v.handle) for v in trace.draws.variables}
    run = {op.name for op in ops}
    for outer, inner in trace.graph.captures:  # type: ignore[attr-defined]
        if inner.op.name not in run or outer.dtype != tf.resource or id(outer) in ours:
            continue
        users = [op for op in inner.consumers() if op.name in run]
        if not all(op_kinds.only_looks_up(op.type) for op in users):
            return f"{inner.op.name} does not belong to the model"
    return None


def compiling_problem(
    trace: Trace, targets: Targets, shapes: Sequence[tf.TensorShape], *, asked: bool
) -> str | None:
    """Why XLA is not to compile the steps; None: they would do what they do elsewhere.

    Where the user has `asked` for XLA, lookups are compiled too: their indices are not checked.
    """
    problem = device_problem(trace)
    if problem is not None:
        return problem
    for tensor, shape in zip(trace.inputs, shapes, strict=True):
        if not shape.is_fully_defined():
            return f"the shape {shape} of its input is not fixed (try batch(drop_remainder=True))"
        if tensor.dtype in (tf.string, tf.variant, tf.resource):
            return f"its input has the type {tensor.dtype.name}"
    targets = list(targets)
    part = trace.part(targets, shapes)
    if part is None:
        return "it does not fit the shapes of its batches"
    checks = BatchChecks.of(trace, part)
    part = checks.left_out(part)
    for node, others in op_kinds.with_others(part):
        if not (_compiles_to_the_same(node, others, asked=asked) or node.name in checks.labels):
            return f"it uses the op {node.op} ({node.name})"
    run = {node.name for node in part.node}
    run |= {subgraph.op_of(name) for node in part.node for name in node.input}
    for op in needed(targets):
        if op.name in run and any(t.dtype == tf.string for t in op.outputs):
            return f"it computes with strings ({op.name})"
    for outer, inner in trace.graph.captures:  # type: ignore[attr-defined]
        if inner.op.name in run and not hasattr(outer, "numpy"):
            return f"it uses {inner.op.name}, which is no variable"
    return None


def _compiles_to_the_same(node: NodeDef, others: Mapping[str, Any], *, asked: bool) -> bool:
    if node.op.startswith(_OTHER_NUMBERS):
        return False
    return (
        node.op in op_kinds.CALLS
        or node.op in ("Placeholder", "_Arg", "_Retval")
        or op_kinds.is_total(node, others)
        or op_kinds.uses_variables_whole(node.op)
        or (asked and node.op.startswith(_UNCHECKED))
    )
