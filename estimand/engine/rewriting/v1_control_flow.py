"""Conditions and loops of TensorFlow 1, which graphs that are imported may have.

They are ops among others (`Switch`, `Merge`, `Enter`, …), and what is not on the chosen way is
dead. Nothing may be folded there or made to wait from outside, and automatic control dependencies
do not know what belongs to which branch. So a step that has them is called as a function of its
own, as it was traced, by TensorFlow's ordinary executor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import tensorflow as tf
from tensorflow.compat.v1 import GraphDef, NodeDef

from estimand.core import tf_private
from estimand.engine.rewriting.subgraph import Uses, is_plain_read, op_of

_OPENING = frozenset({"Switch", "Enter"})
_OPS = _OPENING | {"Merge", "Exit", "NextIteration", "LoopCond"}


def problem(node: NodeDef) -> str | None:
    """Why only the ordinary executor runs a node; None: it is not of this kind."""
    if node.op in _OPS:
        return f"it has conditions or loops of TensorFlow 1 ({node.name})"
    return None


def is_in(part: GraphDef) -> bool:
    return any(node.op in _OPS for node in part.node)


def behind(part: GraphDef) -> set[str]:
    """The nodes that may be in a branch or loop, or come after one."""
    users: dict[str, list[str]] = {}
    for node in part.node:
        for name in node.input:
            users.setdefault(op_of(name), []).append(node.name)
    stack = [node.name for node in part.node if node.op in _OPENING]
    found = set(stack)
    while stack:
        new = [name for name in users.get(stack.pop(), ()) if name not in found]
        found.update(new)
        stack += new
    return found


def call(
    part: GraphDef, given: Mapping[str, tf.Tensor], wanted: Sequence[str]
) -> list[tf.Tensor | tf.Operation]:
    """Call `part` in the function that is being built; its operation stands for ops in `wanted`.

    Args:
      given: tensors from outside, by the names that the nodes of `part` have for them.
    """
    _read_before_writing(part)
    tensors = [name for name in wanted if ":" in name]

    def step() -> list[tf.Tensor]:
        inside = {name: tf_private.capture(tensor) for name, tensor in given.items()}
        results = tf.graph_util.import_graph_def(part, inside, list(wanted), name="step")
        with tf.control_dependencies([r for r in results if isinstance(r, tf.Operation)]):
            done = tf.constant(True)  # there when the ops have run
            return [done, *(tf.identity(r) for r in results if isinstance(r, tf.Tensor))]

    done, *results = tf.compat.v1.wrap_function(step, [])()
    by_name = dict(zip(tensors, results, strict=True))
    return [by_name.get(name, done.op) for name in wanted]


def _read_before_writing(part: GraphDef) -> None:
    """Reads that wait for nothing mean the value before the step."""
    uses = Uses({node.name: node for node in part.node})
    for read in filter(is_plain_read, list(part.node)):
        for write in uses.writers(read.input[0]):
            write.input.append(f"^{read.name}")
