"""Sums over devices, of which each device computes its part."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.core import tf_private

_GROUP, _INSTANCE = 2, 3  # inputs of the ops that hold the keys


def tie_together(graph: tf.Graph) -> None:
    """Let whoever uses the result on one device also wait for those on the others.

    Only what is asked for is cut out of a traced graph: with a sum's part on one device only,
    it would wait for ever for the other parts.
    """
    parts: dict[Any, list[tf.Operation]] = collections.defaultdict(list)
    for op in graph.get_operations():
        if op.type.startswith("Collective") and len(op.inputs) > _INSTANCE:
            keys = (_key(op.inputs[i]) for i in (_GROUP, _INSTANCE))
            parts[(op.type, *keys)].append(op)
    for together in parts.values():
        for part in together:
            others = [op for op in together if op is not part]
            for user in {c.name: c for t in part.outputs for c in t.consumers()}.values():
                tf_private.add_control_inputs(user, others)


def _key(tensor: tf.Tensor) -> int:
    """A key; of one that depends on how many rows there are, the part that does not."""
    value = tf.get_static_value(tensor)
    if value is None:
        [value] = [v for v in map(tf.get_static_value, tensor.op.inputs) if v is not None]
    return int(value)


def outside_of_loops(step: Callable[..., tf.Tensor]) -> Any:
    """`step` as a function that is called, not copied, where a loop is being built.

    Processes find each other's part of a sum by its key, and TensorFlow adds to it in which
    iteration of a loop it is. But each process has its own loops: how many steps it takes at once
    depends on its hooks and on how fast it is. Inside of a function there is no iteration.
    """
    return tf.function(step, autograph=False, experimental_attributes={"_noinline": True})
