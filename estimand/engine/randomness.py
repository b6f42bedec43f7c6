"""Random ops whose values depend on the step, not on how often a kernel has run.

A stateful random op (the one inside `tf.nn.dropout`) counts its own calls in memory that no
checkpoint holds: a resumed run would draw the masks of the first steps again. Replacing it by
its stateless twin, keyed by the op's seeds and the global step, makes a run that was killed and
resumed draw exactly what the uninterrupted one drew.

Ops without a twin stay as they are, and so do those in the body of a `cond` or a `while_loop`,
which a loop may run many times in one step. The user is told.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow as tf

from estimand.core import tf_private

_log = logging.getLogger("tensorflow")

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
_WITHOUT_TWIN = frozenset(
    {
        "Multinomial", "ParameterizedTruncatedNormal", "RandomGamma", "RandomPoisson",
        "RandomPoissonV2", "RandomShuffle", "StatefulRandomBinomial",
    }
)  # fmt: skip
_WITH_BODIES = ("If", "While", "Case", "PartitionedCall", "StatefulPartitionedCall")


def is_twin(name: str) -> bool:
    """Whether an op of this name was made by `key_random_ops_by_step`."""
    return name.startswith(_SCOPE)


def key_random_ops_by_step(graph: tf.Graph, global_step: tf.Variable, worker: int = 0) -> int:
    """Replace the stateful random ops of `graph`; returns how many there were.

    The same graph on another `worker` of a cluster draws other values.
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


def warn_about_uncovered_ops(needed: Iterable[tf.Operation]) -> None:
    """Tell of random ops among `needed`, and in bodies that they run, which keep their state."""
    ops = list(needed)
    found = [f"{op.type} ({op.name})" for op in ops if op.type in _WITHOUT_TWIN]
    found += [f"{node.op} (in the body {body})" for body, node in _nodes_in_bodies(ops)
              if node.op in _WITHOUT_TWIN or node.op in _TWINS]  # fmt: skip
    if found:
        _log.warning(
            "Some random numbers will not be the same again when this training is interrupted and "
            "resumed, as those of other ops are: %s. To have them so, draw them outside of cond "
            "and while_loop, or with tf.random.stateless_uniform(shape, seed=[7, global_step]) "
            "or another of its kind.",
            ", ".join(found[:3]) + (", ..." if len(found) > 3 else ""),
        )


def _nodes_in_bodies(ops: list[tf.Operation]) -> Iterator[tuple[str, Any]]:
    callers = [op for op in ops if op.type in _WITH_BODIES]
    if not callers:
        return
    bodies = {f.signature.name: f for f in callers[0].graph.as_graph_def().library.function}
    names = [name for op in callers for name in _called(op.node_def)]
    seen: set[str] = set()
    while names:
        name = names.pop(0)
        if name in seen or name not in bodies:
            continue
        seen.add(name)
        for node in bodies[name].node_def:
            yield name, node
            names += _called(node)


def _called(node: Any) -> list[str]:
    values = [value for _, value in sorted(node.attr.items())]
    return [f.name for value in values for f in (value.func, *value.list.func) if f.name]
