"""Copies the wanted part of a traced graph into the function that is being built.

Calling the step as a function of its own costs tens of microseconds per step in the
single-threaded executor; its ops, placed directly into the loop's body, cost nothing extra.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.compat.v1 import GraphDef, NodeDef

from estimand.core import tf_private
from estimand.engine.rewriting import batch_shapes, branches, v1_control_flow
from estimand.engine.rewriting.op_kinds import is_random_twin
from estimand.engine.rewriting.simplifying import simplified
from estimand.engine.rewriting.subgraph import is_plain_read

_BATCH = "estimand_batch"  # no name of a user's op


class GraphCopy:
    """A graph as a message, from which parts can be placed into other graphs."""

    def __init__(self, graph: tf.Graph) -> None:
        self._graph = graph
        self._definition = graph.as_graph_def()
        self._nodes = {node.name: node for node in self._definition.node}
        self._functions = {f.signature.name for f in self._definition.library.function}
        self.size = len(graph.get_operations())
        self._last: tuple[Any, Any, bool] | None = None  # part that was made, and what of
        self._captures = {
            inner.op.name: outer
            for outer, inner in graph.captures  # type: ignore[attr-defined]
        }

    def place(
        self,
        fetches: Sequence[tf.Tensor | tf.Operation],
        feeds: Sequence[tf.Tensor],
        values: Sequence[tf.Tensor],
        rewrite: Callable[[Any], Any] | None = None,
    ) -> list[tf.Tensor | tf.Operation]:
        """Copy what `fetches` need into the default graph, with `values` in place of `feeds`.

        What is placed computes the same with fewer ops (see `simplifying`); `rewrite` is given
        the message of it, and gives what is to be placed instead.
        """
        fed = {
            feed.name: tf_private.capture(value) for feed, value in zip(feeds, values, strict=True)
        }
        wanted = [f.name for f in fetches if f.name not in fed]
        part, fits = self.part(wanted, {name: value.shape for name, value in fed.items()})
        if not fits:  # with less known of the batch, it fails when it runs
            fed = {
                feed.name: tf.compat.v1.placeholder_with_default(fed[feed.name], feed.shape)
                for feed in feeds
            }
        called = v1_control_flow.is_in(part)
        if rewrite is not None and not called:
            part = rewrite(part)
            new = (f for f in part.library.function if f.signature.name not in self._functions)
            tf_private.define_functions(new, self._graph)
        if not called:
            branches.let_updates_wait(part)
        if feeds and _wait_for_batch(part, {feed.op.name for feed in feeds}):
            fed[f"^{_BATCH}"] = _all_there([fed[feed.name] for feed in feeds])
        used = {i.split(":")[0] for node in part.node for i in node.input}
        for name in sorted(used & self._captures.keys()):  # the same in every process
            if f"{name}:0" not in fed:
                fed[f"{name}:0"] = tf_private.capture(self._captures[name])
        needed = {k: v for k, v in fed.items() if k.split(":")[0] in used}  # of control, too
        if called:
            placed = iter(v1_control_flow.call(part, needed, wanted))
        else:
            placed = iter(
                tf.graph_util.import_graph_def(
                    part, input_map=needed, return_elements=wanted, name="step"
                )
            )
        return [fed[f.name] if f.name in fed else next(placed) for f in fetches]

    def part(self, wanted: Sequence[str], batch: Mapping[str, tf.TensorShape]) -> tuple[Any, bool]:
        """What computes `wanted` from a batch of these shapes, and whether it fits such a batch.

        The last one is kept: a step is placed several times, by itself, into loops, and for trials.
        """
        key = frozenset(wanted), tuple((name, str(shape)) for name, shape in sorted(batch.items()))
        if self._last is None or self._last[0] != key:
            self._last = (key, *self._simplified(wanted, batch))
        part = tf.compat.v1.GraphDef()
        part.CopyFrom(self._last[1])  # whoever asks may change it
        return part, self._last[2]

    def _simplified(
        self, wanted: Sequence[str], batch: Mapping[str, tf.TensorShape]
    ) -> tuple[Any, bool]:
        taken = self._part(wanted, batch)
        if v1_control_flow.is_in(taken):
            return taken, True
        traced = {name: self._graph.get_tensor_by_name(name) for name in batch}
        known = {name: shape.merge_with(traced[name].shape) for name, shape in batch.items()}
        if all(known[name] == traced[name].shape for name in known):
            return simplified(taken, wanted, self._graph), True
        specs = {name: tf.TensorSpec(known[name], traced[name].dtype) for name in known}
        shape_of = batch_shapes.for_batch(taken, self._graph, specs, self._captures)
        return simplified(taken, wanted, self._graph, shape_of), shape_of is not None

    def _early(self, chosen: Sequence[Any]) -> set[str]:
        """The reads among nodes, with what they are computed from where that has no effects."""
        early = {node.name for node in chosen if is_plain_read(node)}
        known = {node.name: node for node in chosen}
        for node in chosen:
            if not _branches_read(node):
                continue
            before = {node.name}
            stack = list(node.input)
            while stack:
                name = stack.pop().lstrip("^").split(":")[0]
                if name in known and name not in before | early:
                    before.add(name)
                    stack.extend(known[name].input)
            others = before - {node.name}
            if not any(tf_private.is_stateful(known[name].op) for name in others):
                early |= before
        return early

    def _part(self, wanted: Sequence[str], fed: Collection[str]) -> Any:
        """The nodes that `wanted` need and that are not given from outside."""
        part = tf.compat.v1.GraphDef()
        part.versions.CopyFrom(self._definition.versions)
        part.library.CopyFrom(self._definition.library)
        stack = list(wanted)
        seen: set[str] = set()
        while stack:
            reference = stack.pop()
            name = reference.lstrip("^").split(":")[0]
            output = reference if ":" in reference else f"{name}:0"
            if output in fed or name in self._captures or name in seen:
                continue
            seen.add(name)
            stack.extend(self._nodes[name].input)
        given = self._captures.keys() | {name.split(":")[0] for name in fed}
        chosen = [node for node in self._definition.node if node.name in seen]
        # In the order of creation, but mere reads first: automatic control dependencies follow
        # the order, and a read that waits for nothing means the value before the step. Ops that
        # took the place of others later belong where those were: at the end they would let one
        # replica come to a sum before the other's prints, and both would wait for ever.
        early = self._early(chosen)
        for node in sorted(chosen, key=lambda n: not (n.name in early or is_random_twin(n.name))):
            copied = part.node.add()
            copied.CopyFrom(node)
            _forget_colocation(copied)
            _forget_waiting_for(copied, given)
        return part


def _wait_for_batch(part: GraphDef, given: set[str]) -> bool:
    """Have ops with effects wait for what is given, unless they use it; whether there are any.

    An input that ends inside of a block ends the step before any of it was done: a count that
    needs no batch would be one too high.
    """
    users: dict[str, list[str]] = {}
    for node in part.node:
        for name in node.input:
            users.setdefault(name.lstrip("^").split(":")[0], []).append(node.name)
    waiting, stack = set(given), list(given)
    while stack:
        new = [name for name in users.get(stack.pop(), ()) if name not in waiting]
        waiting.update(new)
        stack += new
    early = [n for n in part.node if n.name not in waiting and not is_plain_read(n)]
    inside = v1_control_flow.behind(part)  # where nothing may wait for what is outside
    early = [n for n in early if tf_private.is_stateful(n.op) and n.name not in inside]
    for node in early:
        node.input.append(f"^{_BATCH}")
    return bool(early)


def _all_there(values: Sequence[tf.Tensor]) -> tf.Tensor:
    """A tensor that is there when all `values` are."""
    if len({value.op.name for value in values}) == 1:
        return values[0]
    with tf.control_dependencies(values):
        return tf.constant(0, name=_BATCH)


def _branches_read(node: NodeDef) -> bool:
    """Whether a condition or loop reads variables, changes none, and was not told to wait."""
    if any(name.startswith("^") for name in node.input):
        return False
    given = {"If": "Tin", "Case": "Tin", "While": "T"}.get(node.op)
    if given is None:
        return False
    first = 0 if node.op == "While" else 1  # after the condition
    types = enumerate(node.attr[given].list.type, first)
    resources = {i for i, dtype in types if dtype == tf.resource.as_datatype_enum}
    return bool(resources) and resources <= set(node.attr["_read_only_resource_inputs"].list.i)


def _forget_waiting_for(node: NodeDef, given: set[str]) -> None:
    """What is given from outside is there already; as a node it is not part of the copy."""
    inputs = [name for name in node.input if not (name[0] == "^" and name[1:] in given)]
    if len(inputs) != len(node.input):
        del node.input[:]
        node.input.extend(inputs)


def _forget_colocation(node: NodeDef) -> None:
    """It names nodes that may not be part of the copy; all devices are chosen already."""
    if "_class" in node.attr:
        del node.attr["_class"]
