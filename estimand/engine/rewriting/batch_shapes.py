"""What is known of the shapes in a step once the size of its batches is.

A model function is traced for batches of any size. Where all of them have one, what it computes
from their shapes is the same in every step, such as the factors in the gradient of a mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import tensorflow as tf
from tensorflow.compat.v1 import GraphDef

from estimand.core import tf_private
from estimand.engine.rewriting.subgraph import tensor

ShapeOf = Callable[[str], tf.TensorShape]  # by name of a tensor

_MOST_OPS = 5000  # of larger steps the arithmetic on shapes is no matter
_PREFIX = "step"


def as_traced(graph: tf.Graph) -> ShapeOf:
    """What is known for batches of any size."""
    return lambda name: graph.get_tensor_by_name(name).shape


def for_batch(
    part: GraphDef,
    graph: tf.Graph,
    batch: Mapping[str, tf.TensorSpec],
    captures: Mapping[str, tf.Tensor],
) -> ShapeOf | None:
    """What is known for a batch of these shapes, given by names of the tensors that stand for it.

    None: the step does not fit such a batch. What is wrong will be told when it runs.
    """
    if len(part.node) > _MOST_OPS:
        return as_traced(graph)
    scratch = tf_private.function_graph("shapes")
    used = {tensor(i) for node in part.node for i in node.input if not i.startswith("^")}
    try:
        with scratch.as_default():
            given = {
                name: tf.compat.v1.placeholder(spec.dtype, spec.shape)
                for name, spec in batch.items()
                if name in used
            }
            for name, outer in captures.items():
                if f"{name}:0" in used and f"{name}:0" not in given:
                    given[f"{name}:0"] = scratch.capture(outer)
            tf.graph_util.import_graph_def(part, input_map=given, name=_PREFIX)
    except (ValueError, TypeError):
        return None
    traced = as_traced(graph)

    def shape_of(name: str) -> tf.TensorShape:
        if name in batch:
            return batch[name].shape
        known = traced(name)  # with what user code told by set_shape, which is in no op
        try:
            return known.merge_with(scratch.get_tensor_by_name(f"{_PREFIX}/{name}").shape)
        except (KeyError, ValueError):  # given from outside; or told wrongly
            return known

    return shape_of
