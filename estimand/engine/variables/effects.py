"""Side effects inside a traced model function.

v1 code wires its side effects by hand (`control_dependencies`, `UPDATE_OPS`), Keras code relies
on program order. Both live in one graph here, which orders nothing by itself: so what Keras
code assigns is put into program order and collected, to be run with the training step. Without
that, the moving averages of batch normalization would silently never move.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterable, Sequence
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.engine.variables.engine_variable import written_by_hand
from estimand.engine.variables.placement import copies

_log = logging.getLogger("tensorflow")

_OF_V1_OPTIMIZERS = ("ResourceApply", "ResourceSparseApply")
_READS = frozenset({"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape"})


def order_program_effects(graph: tf.Graph, variables: Iterable[tf.Variable]) -> list[tf.Operation]:
    """Put all uses of `variables` into program order; returns the writing ops.

    Each op waits for the write before it, each write also for the reads before it. Creation
    order is a topological order, so no cycle can arise. What v1 code writes (its optimizers may
    train Keras layers) is left to the wires it has made.
    """
    by_hand = written_by_hand(graph)
    position = {op.name: i for i, op in enumerate(graph.get_operations())}
    inside = {id(outer): inner for outer, inner in graph.captures}  # type: ignore[attr-defined]
    writes: dict[str, tf.Operation] = {}
    for variable in itertools.chain.from_iterable(map(copies, variables)):
        handle = inside.get(id(variable.handle))
        if handle is None:
            continue
        last_write: tf.Operation | None = None
        reads: list[tf.Operation] = []
        for op in sorted(handle.consumers(), key=lambda o: position[o.name]):
            if op.name in by_hand or op.type.startswith(_OF_V1_OPTIMIZERS) or _is_savers(op):
                continue
            before = [last_write] if last_write is not None else []
            if _writes(op, handle):
                before += reads
                last_write, reads = op, []
                writes[op.name] = op
            else:
                reads.append(op)
            missing = [b for b in before if b is not op and b not in op.control_inputs]
            if missing:
                tf_private.add_control_inputs(op, missing)
    return sorted(writes.values(), key=lambda o: position[o.name])


def _is_savers(op: tf.Operation) -> bool:
    """Whether an op belongs to a Saver, which runs it when it is told to save or restore."""
    if op.type != "AssignVariableOp":
        return op.type == "DisableCopyOnRead"
    source = op.inputs[1].op
    while source.type in ("Identity", "Reshape"):
        source = source.inputs[0].op
    return source.type == "RestoreV2"


def order_overwriting(
    graph: tf.Graph, variables: Iterable[tf.Variable], run: dict[str, tf.Operation]
) -> None:
    """What is computed of a variable after a write of v1 code, to assign it, is of that write.

    `v.assign(tf.clip_by_value(v, -1, 1))` after `minimize` is wired to nothing. If it read before
    the update and assigned after it, the update would be lost; sessions of TensorFlow 1 hardly
    ever got to that. `run` has the ops of a step.
    """
    position = {op.name: i for i, op in enumerate(graph.get_operations())}
    inside = {id(outer): inner for outer, inner in graph.captures}  # type: ignore[attr-defined]
    for variable in itertools.chain.from_iterable(map(copies, variables)):
        handle = inside.get(id(variable.handle))
        uses = [op for op in handle.consumers() if op.name in run] if handle is not None else []
        uses.sort(key=lambda op: position[op.name])
        writes = [op for op in uses if _writes(op, handle)]
        for overwriting in [op for op in writes[1:] if op.type == "AssignVariableOp"]:
            before = [op for op in writes if position[op.name] < position[overwriting.name]][-1]
            newer = _ancestors_after(overwriting, position, position[before.name])
            for read in [op for op in uses if op.name in newer and op not in writes]:
                if before not in read.control_inputs:
                    tf_private.add_control_inputs(read, [before])


def _ancestors_after(op: tf.Operation, position: dict[str, int], start: int) -> set[str]:
    """What `op` depends on, as far as it was made after the op at `start`."""
    seen: set[str] = set()
    stack = [op]
    while stack:
        op = stack.pop()
        if op.name not in seen and position[op.name] > start:
            seen.add(op.name)
            stack += [*(tensor.op for tensor in op.inputs), *op.control_inputs]
    return seen


def name_resources(graph: tf.Graph, owner: str, *, after: int = 0) -> None:
    """Give every table, queue and the like that has no name of its own one under `owner`.

    A nameless one belongs to its op, but one op of the graph is cut out and copied into many
    functions: all of them, and all modes of one estimator, must meet the same table. The first
    `after` ops of the graph have been seen to.
    """
    for op in graph.get_operations()[after:]:
        if "shared_name" in op.node_def.attr and not op.get_attr("shared_name"):
            tf_private.set_string_attribute(op, "shared_name", f"{owner}/{op.name}")


def writes_to(graph: tf.Graph, variables: Iterable[tf.Variable]) -> list[tf.Operation]:
    """The ops of `graph` that change any of `variables`."""
    inside = {id(outer): inner for outer, inner in graph.captures}  # type: ignore[attr-defined]
    writers: dict[str, tf.Operation] = {}
    for variable in itertools.chain.from_iterable(map(copies, variables)):
        handle = inside.get(id(variable.handle))
        for op in handle.consumers() if handle is not None else ():
            if _writes(op, handle):
                writers[op.name] = op
    return list(writers.values())


def changes_state(op: tf.Operation) -> bool:
    """Whether an op writes to any resource it is given."""
    return any(t.dtype == tf.resource and _writes(op, t) for t in op.inputs)


def _writes(op: tf.Operation, handle: tf.Tensor) -> bool:
    if op.type in _READS:
        return False
    try:
        read_only = op.get_attr("_read_only_resource_inputs")
    except ValueError:
        return True
    return any(i not in read_only for i, t in enumerate(op.inputs) if t is handle)


def ancestors(ops: Iterable[tf.Operation]) -> dict[str, tf.Operation]:
    """`ops` and everything they depend on, by name."""
    seen: dict[str, tf.Operation] = {}
    stack = list(ops)
    while stack:
        op = stack.pop()
        if op.name in seen:
            continue
        seen[op.name] = op
        stack.extend(t.op for t in op.inputs)
        stack.extend(op.control_inputs)
    return seen


def warn_about_unwired_updates(graph: tf.Graph, needed: dict[str, tf.Operation]) -> None:
    """v1 layers leave their updates to the user; forgetting them is the classic mistake."""
    update_ops = graph.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS)
    tell_unwired([u for u in update_ops if getattr(u, "op", u).name not in needed])


def tell_unwired(updates: Sequence[Any]) -> None:
    """Warn of ops in UPDATE_OPS that no step runs."""
    if updates:
        names = ", ".join(getattr(u, "op", u).name for u in updates[:3])
        _log.warning(
            "%d update op(s) in tf.GraphKeys.UPDATE_OPS (%s%s) are not run by train_op, so e.g. "
            "moving averages of batch normalization stay at their initial values. Wrap the "
            "optimizer: with tf.control_dependencies(tf.compat.v1.get_collection("
            "tf.compat.v1.GraphKeys.UPDATE_OPS)): train_op = optimizer.minimize(...)",
            len(updates),
            names,
            ", ..." if len(updates) > 3 else "",
        )
