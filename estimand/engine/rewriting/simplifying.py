"""A copied part of a graph, made smaller without changing a bit of what it computes.

In a small model more than half of the ops of a step are of the kind that goes away: arithmetic
on static shapes, ordering of gradients, gradients nobody asked for. TensorFlow's own optimizer
removes them, but it also reorders sums and divisions, as far as nobody looks at what lies
between: then a step that a hook looks at gives other last bits than the same step without. So
it is switched off where steps run (`compiled`), and this is done instead. Each rewrite here
leaves every remaining op with exactly the inputs it had, whatever is fetched beside it:

- what depends on constants and static shapes only is computed once, by the same kernels;
- ops that hand on their input are passed by;
- waiting for an op that cannot fail is waiting for what it needs; so it goes if nobody uses it;
- what is computed twice is computed once (`repeats`);
- tables are looked up where they are, not read whole (`tables`);
- updates of variables take few passes over memory (`updates`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compat.v1 import GraphDef, NodeDef

from estimand.engine.rewriting import op_kinds, repeats, tables, updates
from estimand.engine.rewriting.batch_shapes import ShapeOf, as_traced
from estimand.engine.rewriting.subgraph import (
    constant,
    data_of,
    in_order,
    op_of,
    set_inputs,
    tensor,
    waits_of,
)

_log = logging.getLogger("tensorflow")

_HANDS_ON = frozenset({"Identity", "StopGradient", "PreventGradient", "Snapshot"})
_OF_SHAPES = frozenset({"Shape", "Size", "Rank"})
_SUMS = frozenset({"Sum", "Mean", "Prod", "Max", "Min"})
# Loops of the v1 kind are cycles, which have no order: such graphs stay as they are.
_CYCLIC = frozenset({"NextIteration", "RefNextIteration"})
# Not defined for everything, but if they fail on constants they would do so in every step.
_FAIL_AT_ONCE = frozenset({"DynamicStitch", "FloorDiv", "FloorMod", "GatherV2"})
_LARGEST_CONSTANT = 1024  # elements
# What they give may be larger than all they are given.
_GROWS = ("BroadcastTo", "Fill", "LinSpace", "MirrorPad", "OneHot", "Pad", "Range", "Stateless",
          "StridedSliceGrad", "Tile")  # fmt: skip
# Waiting for a group is replaced by waiting for its members if these are few.
_MOST_TO_WAIT_FOR = 64


def simplified(
    part: GraphDef, fetches: Sequence[str], graph: tf.Graph, shape_of: ShapeOf | None = None
) -> Any:
    """What computes the same as `part`, as far as `fetches` need it.

    `graph` is what the part was taken from. It knows static shapes; `shape_of` may know more. The
    ops that remain keep their names and their order, which automatic control dependencies follow.
    """
    if any(node.op in _CYCLIC for node in part.node):
        return part
    work = _Simplifier(part, fetches, graph, shape_of or as_traced(graph))
    work.wait_less()  # also constants may wait for something
    work.fold()
    work.pass_by()
    work.wait_less()
    work.rewrite()
    return work.result()


class _Simplifier:
    def __init__(
        self, part: GraphDef, fetches: Sequence[str], graph: tf.Graph, shape_of: ShapeOf
    ) -> None:
        self._part = part
        self._shape_of = shape_of
        self._kept = {op_of(f) for f in fetches}
        self._graph = graph
        self._nodes = {node.name: node for node in part.node}
        self._constants: dict[str, Any] = {}  # values by name of the op
        self._waits: dict[str, dict[str, None]] = {}
        self._do_not_fail: set[str] = set()  # as was seen

    # What depends on constants only

    def fold(self) -> None:
        foldable = self._of_constants()
        used = self._used_outside(foldable)
        wanted = [n for n, node in foldable.items() if node.op != "Const" and n in used]
        try:
            values = _evaluate(foldable, wanted)
        except (tf.errors.OpError, ValueError, TypeError) as error:
            # It fails, or has no kernel here: let that show when the step is run.
            _log.debug("Constants are not folded: %s", error)
            return
        self._let_users_wait(foldable)
        self._do_not_fail |= {n for n, node in foldable.items() if node.op in _FAIL_AT_ONCE}
        if self._do_not_fail:
            self.wait_less()
        for name, value in values.items():
            self._replace(name, value)
        for name, node in foldable.items():
            if name in used and self._nodes[name].op in _OF_SHAPES:
                self._nodes[name] = node
            if node.op == "Const":
                self._constants[name] = node

    def _of_constants(self) -> dict[str, Any]:
        """What has the same value in every step, as nodes that wait for nothing."""
        foldable: dict[str, Any] = {}
        waiting: set[str] = set()
        for node in in_order(self._nodes):
            waits = bool(waits_of(node)) or any(op_of(i) in waiting for i in node.input)
            if waits and node.name in self._kept:
                continue  # whoever fetches it waits as well
            if node.op in _OF_SHAPES:
                known = self._of_static_shape(node)
            else:
                known = node if node.op == "Const" or self._is_foldable(node, foldable) else None
            if known is not None:
                foldable[node.name] = _without_waits(known)
                if waits:
                    waiting.add(node.name)
        return foldable

    def _let_users_wait(self, foldable: dict[str, Any]) -> None:
        """For what constants were to wait for: their values are known before."""
        waits: dict[str, dict[str, None]] = {}
        for node in in_order(self._nodes):
            before = dict.fromkeys(w for i in node.input for w in waits.get(op_of(i), ()))
            if node.name in foldable:
                before |= dict.fromkeys(waits_of(node))
                if before:
                    waits[node.name] = before
            elif before:
                _add_waits(node, before)
        for name in foldable:
            self._nodes[name] = _without_waits(self._nodes[name])

    def _of_static_shape(self, node: NodeDef) -> Any:
        shape = self._shape_of(tensor(node.input[0]))
        if node.op == "Rank":
            value = shape.rank
        elif not shape.is_fully_defined():
            return None
        else:
            value = shape.num_elements() if node.op == "Size" else shape.as_list()
        if value is None:
            return None
        dtype = tf.int32 if node.op == "Rank" else tf.dtypes.as_dtype(node.attr["out_type"].type)
        return constant(node.name, np.asarray(value, dtype.as_numpy_dtype), dtype)

    def _is_foldable(self, node: NodeDef, foldable: dict[str, Any]) -> bool:
        if not data_of(node):
            return False
        if not (op_kinds.is_pure(node) or node.op in _FAIL_AT_ONCE):
            return False
        if any(op_of(i) not in foldable for i in data_of(node)):
            return False
        # With several outputs, consumers would have to be told apart: few are worth it.
        if len(self._graph.get_operation_by_name(node.name).outputs) != 1:
            return False
        shape = self._shape_of(f"{node.name}:0")
        if not shape.is_fully_defined():
            limit = foldable[op_of(node.input[1])] if node.op == "Range" else None
            of_rank = limit is not None and self._nodes[limit.name].op == "Rank"
            return of_rank or not node.op.startswith(_GROWS)
        return shape.num_elements() <= _LARGEST_CONSTANT

    def _used_outside(self, foldable: dict[str, Any]) -> set[str]:
        """The ops whose values somebody else needs."""
        inputs = {i for n in self._nodes.values() if n.name not in foldable for i in n.input}
        return {op_of(i) for i in inputs if not i.startswith("^")} | self._kept

    def _replace(self, name: str, value: Any) -> None:
        dtype = tf.dtypes.as_dtype(value.dtype)
        self._nodes[name] = self._constants[name] = constant(name, value.numpy(), dtype)

    # Ops that give what they are given

    def pass_by(self) -> None:
        source: dict[str, tuple[str, list[str]]] = {}  # tensor -> where from, what to wait for
        for node in in_order(self._nodes):
            waits: list[str] = []
            for i, name in enumerate(node.input):
                if name in source:
                    node.input[i], more = source[name]
                    waits += more
            _add_waits(node, waits)
            # Also those that are fetched: others have the same inputs, whoever looks.
            own = [i for i in node.input if i.startswith("^")]
            if node.op == "IdentityN":
                data = [i for i in node.input if not i.startswith("^")]
                source |= {f"{node.name}:{n}" if n else node.name: (i, own)
                           for n, i in enumerate(data)}  # fmt: skip
            elif self._hands_on(node):
                source[node.name] = (node.input[self._which(node)], own)

    def _which(self, node: NodeDef) -> int:
        if node.op == "Mul" and self._is_constant(node.input[0], 1):
            return 1
        return 0

    def _hands_on(self, node: NodeDef) -> bool:
        if node.op in _HANDS_ON:
            return True
        if node.op in _SUMS:
            return self._size(node.input[1]) == 0
        if node.op in ("Reshape", "BroadcastTo"):
            return self._same_shape(node)
        if node.op == "Mul":
            return self._is_constant(node.input[0], 1) or self._is_constant(node.input[1], 1)
        if node.op in ("RealDiv", "DivNoNan"):
            return self._is_constant(node.input[1], 1)
        if node.op == "Tile":
            return self._is_constant(node.input[1], 1, scalar=False)
        return False

    def _same_shape(self, node: NodeDef) -> bool:
        before = self._shape_of(tensor(node.input[0]))
        after = self._shape_of(f"{node.name}:0")
        return before.is_fully_defined() and before == after

    def _is_constant(self, name: str, value: float, *, scalar: bool = True) -> bool:
        """Whether an input is nothing but `value`; a scalar changes no shape."""
        node = self._constants.get(op_of(name))
        if node is None or (scalar and node.attr["value"].tensor.tensor_shape.dim):
            return False
        dtype = tf.dtypes.as_dtype(node.attr["dtype"].type)
        if not (dtype.is_floating or dtype.is_integer):
            return False
        return bool(np.all(_value_of(node) == value))

    def _size(self, name: str) -> int | None:
        node = self._constants.get(op_of(name))
        return None if node is None else _value_of(node).size

    # What ops wait for

    def wait_less(self) -> None:
        self._waits.clear()
        order = in_order(self._nodes)
        place = {node.name: i for i, node in enumerate(order)}
        done: dict[str, int] = {}  # as bits: all that has run before an op has
        for node in order:
            data = [i for i in node.input if not i.startswith("^")]
            waits = {w for i in node.input if i.startswith("^") for w in self._to_wait_for(i[1:])}
            before = 0
            for name in map(op_of, data):
                before |= done.get(name, 0)
            controls = []
            for name in sorted(waits, key=place.__getitem__, reverse=True):
                if not before >> place[name] & 1:
                    before |= done[name]
                    controls.append(f"^{name}")
            done[node.name] = before | 1 << place[node.name]
            del node.input[:]
            node.input.extend([*data, *reversed(controls)])

    def _to_wait_for(self, name: str) -> dict[str, None]:
        """What has happened whenever the op of this name has run."""
        order = [name]
        while order:  # no recursion: chains may be thousands of ops long
            current = order[-1]
            node = self._nodes.get(current)
            if current in self._waits:
                order.pop()
                continue
            if node is None:  # given from outside
                self._waits[current] = {}
                continue
            if not (op_kinds.is_total(node, self._nodes) or current in self._do_not_fail):
                self._waits[current] = {current: None}
                continue
            before = [op_of(i) for i in node.input]
            missing = [b for b in before if b not in self._waits]
            if missing:
                order += missing
                continue
            waits = {w: None for b in before for w in self._waits[b]}
            few = len(waits) <= _MOST_TO_WAIT_FOR
            self._waits[current] = waits if few else {current: None}
        return self._waits[name]

    # What can be had with fewer ops, or fewer copies

    def rewrite(self) -> None:
        if not _in_this_process(self._graph):
            return  # what crosses between devices and processes is arranged by others
        repeats.merge(self._nodes)
        tables.look_up_rows(self._nodes, self._kept)
        updates.in_few_passes(self._nodes, self._graph)

    def result(self) -> Any:
        needed = _needed(self._nodes, self._kept)
        graph = tf.compat.v1.GraphDef(versions=self._part.versions, library=self._part.library)
        graph.node.extend(node for name, node in self._nodes.items() if name in needed)
        return graph


def _in_this_process(graph: tf.Graph) -> bool:
    """Whether all variables and tables are on the CPU of this process."""
    outers = [outer for outer, _ in graph.captures]  # type: ignore[attr-defined]
    devices = {t.device for t in outers if t.dtype == tf.resource}
    specs = [tf.DeviceSpec.from_string(d) for d in devices if d]
    places = {(s.job or "localhost", s.device_type or "CPU", s.device_index or 0) for s in specs}
    return places <= {("localhost", "CPU", 0)}


def _evaluate(nodes: dict[str, NodeDef], wanted: list[str]) -> dict[str, tf.Tensor]:
    """The values of constant ops, computed by the kernels that would run in the step."""
    if not wanted:
        return {}
    needed = _needed(nodes, wanted)  # each costs about as much to be taken in as to be computed
    graph = tf.compat.v1.GraphDef()
    graph.node.extend(node for name, node in nodes.items() if name in needed)
    names = [f"{name}:0" for name in wanted]

    def compute() -> Any:
        return tf.graph_util.import_graph_def(graph, return_elements=names, name="")

    with tf.init_scope(), tf.device("CPU:0"):
        function = tf.compat.v1.wrap_function(compute, [])
        return dict(zip(wanted, function(), strict=True))


def _needed(nodes: Mapping[str, NodeDef], names: Iterable[str]) -> set[str]:
    """Those of `nodes` that computing `names` needs."""
    needed: set[str] = set()
    stack = list(names)
    while stack:
        name = stack.pop()
        if name in nodes and name not in needed:
            needed.add(name)
            stack.extend(op_of(i) for i in nodes[name].input)
    return needed


def _value_of(constant: NodeDef) -> np.ndarray:
    return tf.make_ndarray(constant.attr["value"].tensor)


def _without_waits(node: NodeDef) -> Any:
    if not waits_of(node):
        return node
    free = tf.compat.v1.NodeDef()
    free.CopyFrom(node)
    set_inputs(free, data_of(node), ())
    return free


def _add_waits(node: NodeDef, names: Iterable[str]) -> None:
    known = set(node.input)
    node.input.extend(n for n in dict.fromkeys(names) if n not in known)
    controls = [i for i in node.input if i.startswith("^")]
    data = [i for i in node.input if not i.startswith("^")]
    del node.input[:]
    node.input.extend([*data, *controls])
