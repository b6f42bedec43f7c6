"""Sums over devices, of which each device computes its part."""

from __future__ import annotations

import collections
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
            keys = (tf.get_static_value(op.inputs[i]) for i in (_GROUP, _INSTANCE))
            parts[(op.type, *map(int, keys))].append(op)
    for together in parts.values():
        for part in together:
            others = [op for op in together if op is not part]
            for user in {c.name: c for t in part.outputs for c in t.consumers()}.values():
                tf_private.add_control_inputs(user, others)
