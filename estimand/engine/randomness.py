"""Random ops whose values depend on the step, not on how often a kernel has run.

A stateful random op (the one inside `tf.nn.dropout`) counts its own calls in memory that no
checkpoint holds: a resumed run would draw the masks of the first steps again. Replacing it by
its stateless twin, keyed by the op's seeds and the global step, makes a run that was killed and
resumed draw exactly what the uninterrupted one drew.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from estimand.core import tf_private

_ALGORITHM = 1  # Philox
_SCOPE = "estimand/random"


def _uniform(op: tf.Operation, key: tf.Tensor, counter: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.StatelessRandomUniformV2(
        shape=op.inputs[0], key=key, counter=counter, alg=_ALGORITHM, dtype=op.outputs[0].dtype
    )


def _normal(op: tf.Operation, key: tf.Tensor, counter: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.StatelessRandomNormalV2(
        shape=op.inputs[0], key=key, counter=counter, alg=_ALGORITHM, dtype=op.outputs[0].dtype
    )


def _truncated_normal(op: tf.Operation, key: tf.Tensor, counter: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.StatelessTruncatedNormalV2(
        shape=op.inputs[0], key=key, counter=counter, alg=_ALGORITHM, dtype=op.outputs[0].dtype
    )


def _uniform_int(op: tf.Operation, key: tf.Tensor, counter: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.StatelessRandomUniformIntV2(
        shape=op.inputs[0],
        key=key,
        counter=counter,
        alg=_ALGORITHM,
        minval=op.inputs[1],
        maxval=op.inputs[2],
    )


_TWINS: dict[str, Callable[[tf.Operation, tf.Tensor, tf.Tensor], tf.Tensor]] = {
    "RandomUniform": _uniform,
    "RandomStandardNormal": _normal,
    "TruncatedNormal": _truncated_normal,
    "RandomUniformInt": _uniform_int,
}


def is_twin(name: str) -> bool:
    """Whether an op of this name was made by `key_random_ops_by_step`."""
    return name.startswith(_SCOPE)


def key_random_ops_by_step(graph: tf.Graph, global_step: tf.Variable, worker: int = 0) -> int:
    """Replace the stateful random ops of `graph`; returns how many there were.

    The same graph on another `worker` of a cluster draws other values.

    Only ops of the graph itself are reached: one inside a `cond` or `while_loop` body stays
    stateful.
    """
    found = [op for op in graph.get_operations() if op.type in _TWINS and op.outputs[0].consumers()]
    if not found:
        return 0
    with graph.as_default(), tf.name_scope(_SCOPE), tf.control_dependencies(None):
        step = tf.cast(global_step.read_value(), tf.int64)
        for index, op in enumerate(found):
            consumers = list(op.outputs[0].consumers())
            # Op seeds depend on all that was built before; the index among random ops does not.
            # An op with a seed of its own may not have the graph's seed beside it.
            stream = op.get_attr("seed") ^ (index + 1) * 0x9E3779B1 ^ op.get_attr("seed2")
            stream ^= worker * 0x85EBCA6B_0000
            seeds = tf.stack([tf.constant(stream & (2**62 - 1), tf.int64), step])
            key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=seeds)
            value = _TWINS[op.type](op, key, counter)
            value.set_shape(op.outputs[0].shape)
            for consumer in consumers:
                for i, tensor in enumerate(consumer.inputs):
                    if tensor is op.outputs[0]:
                        tf_private.replace_input(consumer, i, value)
    return len(found)
