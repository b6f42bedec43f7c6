"""What a step checks of its batch, so that steps which check can be compiled.

XLA makes nothing of an assertion, and NaN of a label out of range. But what depends on nothing but
the batch can be known before the step is taken: the compiled loop goes on while the next batch
passes, and the one that does not is left to the checks themselves, which say what is wrong with it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import tensorflow as tf
from tensorflow.compat.v1 import GraphDef, NodeDef

from estimand.engine.rewriting import conditions, op_kinds
from estimand.engine.rewriting.subgraph import (
    Uses,
    data_of,
    in_order,
    op_of,
    set_inputs,
    tensor,
    waits_of,
)
from estimand.engine.tracing.trace import Trace

_OF_LABELS = "SparseSoftmaxCrossEntropyWithLogits"
_EXACT = """
Abs ArgMax ArgMin BroadcastTo ConcatV2 Const Equal ExpandDims Fill Greater GreaterEqual Identity
IdentityN IsFinite IsInf IsNan Less LessEqual Max Maximum Min Minimum Neg NotEqual OnesLike Pack
Rank Reshape SelectV2 Shape Sign Size Slice Split SplitV Squeeze StopGradient StridedSlice Tile
Transpose Unpack ZerosLike
"""
_EXACT_OF_FLOATS = frozenset(_EXACT.split())
_HANDED_ON = ("Identity", "Reshape", "Squeeze", "ExpandDims", "StopGradient")


@dataclass(frozen=True)
class BatchChecks:
    """The assertions of a step, and its losses of class numbers, that only need the batch."""

    conditions: Mapping[str, str]  # by name of an assertion: of the tensor that has to be true
    labels: Mapping[str, tuple[int, int]]  # by name of a loss: which input, how many classes

    @classmethod
    def of(cls, trace: Trace, part: GraphDef) -> BatchChecks:
        """Those in what would be placed of a step."""
        inputs = {t.name: i for i, t in enumerate(trace.inputs)}
        return cls(_assertions(part, inputs), _labels(trace, part, inputs))

    def __bool__(self) -> bool:
        return bool(self.conditions or self.labels)

    def passed_by(self, trace: Trace, batch: Sequence[tf.Tensor]) -> tf.Tensor:
        """Into the function being built: whether none of them would fail."""
        wanted = [trace.graph.get_tensor_by_name(name) for name in self.conditions.values()]
        rewrite = functools.partial(self.left_out, wanted=self.conditions.values())
        passed = [tf.reduce_all(c) for c in trace.place(wanted, trace.inputs, batch, rewrite)]
        for index, classes in self.labels.values():
            labels = tf.cast(batch[index], tf.int64)
            passed.append(tf.reduce_all((labels >= 0) & (labels < classes)))
        return tf.reduce_all(tf.stack(passed))

    def fail(self, trace: Trace, batch: Sequence[tf.Tensor]) -> None:
        """Into the function being built: the checks themselves, of which one does not pass."""
        checks = [trace.graph.get_operation_by_name(name) for name in self.conditions]
        losses = [trace.graph.get_tensor_by_name(f"{name}:0") for name in self.labels]
        made = trace.place([*checks, *losses], trace.inputs, batch, conditions.as_loops)
        with tf.control_dependencies(made):
            tf.raw_ops.Assert(condition=False, data=["a check of the batch fails, but not alone"])

    def left_out(self, part: GraphDef, wanted: Iterable[str] = ()) -> Any:
        """`part`, a graph's message that may be changed, without the assertions among these.

        Tensors that are `wanted` stay.
        """
        nodes = {node.name: node for node in part.node}
        gone = {name for name in self.conditions if name in nodes}
        if not gone:
            return part
        gone |= {node.name for node in nodes.values() if _hands_on(node, gone)}
        of_checks = _ancestors(gone, nodes)
        others = {name: node for name, node in nodes.items() if name not in gone}
        kept = _ancestors((nodes.keys() - of_checks) | set(map(op_of, wanted)), others)
        del part.node[:]
        for node in (others[name] for name in others if name in kept):
            set_inputs(node, data_of(node), [w for w in waits_of(node) if op_of(w) not in gone])
            part.node.append(node)
        return part


def _assertions(part: GraphDef, inputs: Mapping[str, int]) -> dict[str, str]:
    nodes = {node.name: node for node in part.node}
    functions = {f.signature.name: f for f in part.library.function}
    uses = Uses(nodes)
    of_batch = {op_of(name) for name in inputs}  # ops that depend on nothing else
    checked: dict[str, str] = {}
    for node in in_order(nodes):
        if not all(op_of(name) in of_batch for name in node.input):
            continue
        if _is_assertion(node, functions) and _is_only_waited_for(node, uses):
            checked[node.name] = tensor(node.input[0])
        elif not (_is_exact(node, nodes) or _hands_on(node, checked.keys())):
            continue
        of_batch.add(node.name)
    return checked


def _is_exact(node: NodeDef, nodes: Mapping[str, NodeDef]) -> bool:
    """Whether XLA computes the very same: sums of floats may come out otherwise."""
    if not op_kinds.is_total(node, nodes):
        return False
    types = {tf.dtypes.as_dtype(a.type) for n, a in node.attr.items() if a.type and n != "DstT"}
    return node.op in _EXACT_OF_FLOATS or not any(t.is_floating or t.is_complex for t in types)


def _is_assertion(node: NodeDef, functions: Mapping[str, Any]) -> bool:
    """Also in the form of tf.debugging: a condition with nothing in its one branch."""
    if node.op in ("If", "StatelessIf"):
        then = functions[node.attr["then_branch"].func.name].node_def
        otherwise = functions[node.attr["else_branch"].func.name].node_def
        nothing = all(inner.op in ("NoOp", "Identity", "Const") for inner in then)
        return nothing and any(inner.op == "Assert" for inner in otherwise)
    return node.op == "Assert"


def _is_only_waited_for(node: NodeDef, uses: Uses) -> bool:
    """Whether nobody computes with what it gives."""
    handed_on = uses.of.get(node.name, [])
    return all(n.op == "Identity" and n.name not in uses.of for n in handed_on)


def _hands_on(node: NodeDef, assertions: Any) -> bool:
    return node.op == "Identity" and op_of(data_of(node)[0]) in assertions


def _labels(trace: Trace, part: GraphDef, inputs: Mapping[str, int]) -> dict[str, tuple[int, int]]:
    by_loss = {}
    for node in part.node:
        if node.op == _OF_LABELS:
            op = trace.graph.get_operation_by_name(node.name)
            classes, labels = tf.compat.dimension_value(op.inputs[0].shape[-1]), op.inputs[1]
            while classes is not None and _is_handed_on(labels.op, classes):
                labels = labels.op.inputs[0]
            if labels.name in inputs and labels.dtype.is_integer and classes is not None:
                by_loss[node.name] = (inputs[labels.name], classes)
    return by_loss


def _is_handed_on(op: tf.Operation, classes: int) -> bool:
    """Whether an op gives a class number where it is given that, and none where it is not."""
    return _keeps_classes(op, classes) if op.type == "Cast" else op.type in _HANDED_ON


def _keeps_classes(cast: tf.Operation, classes: int) -> bool:
    given, made = cast.inputs[0].dtype, cast.outputs[0].dtype
    if made.is_floating:  # Keras' losses take their labels there and back
        return classes <= 2 ** (ml_dtypes.finfo(made.as_numpy_dtype).nmant + 1)
    if given.is_floating:  # what does not fit becomes a number that is no class
        return made in (tf.int32, tf.int64)
    return made.size >= given.size  # of which smaller types keep a part only


def _ancestors(names: Any, nodes: Mapping[str, NodeDef]) -> set[str]:
    """The ops named, and all that they need."""
    needed: set[str] = set()
    stack = list(names)
    while stack:
        name = stack.pop()
        if name in nodes and name not in needed:
            needed.add(name)
            stack += map(op_of, nodes[name].input)
    return needed
