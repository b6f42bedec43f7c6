"""Random ops whose values depend on the step, not on how often a kernel has run.

A stateful random op (the one inside `tf.nn.dropout`) counts its own calls in memory that no
checkpoint holds: a resumed run would draw the masks of the first steps again. Replacing it by
its stateless twin, keyed by the op's seeds and a count of the steps that were run, makes a run
that was killed and resumed draw exactly what the uninterrupted one drew. The count is kept with
each checkpoint. (It is not the global step, which may stand still while gradients accumulate.)

Ops without a twin stay as they are, and so do those in the body of a `cond` or a `while_loop`,
which a loop may run many times in one step. The user is told.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

import tensorflow as tf

from estimand.core import tf_private
from estimand.engine import op_kinds

_log = logging.getLogger("tensorflow")

_ALGORITHM = 1  # Philox
_SCOPE = "estimand/random"
_63_BITS = 2**62 - 1
_NEXT_RUN = 0x2545F491_4F6CDD1D  # odd, so that no two of many sums of it are alike


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


class Draws:
    """What random numbers are keyed by: how many steps were run, and runs since the last one.

    The latter are those of hooks that run parts of the graph between steps. Each draws numbers
    of its own, and none changes what the next step will draw.
    """

    def __init__(self) -> None:
        with tf.init_scope():  # not through creators of variables: it is none of the model's
            self.variable = tf_private.ResourceVariable(
                [0, 0], dtype=tf.int64, trainable=False, name=f"{_SCOPE}/draws"
            )
        self._between = False

    @property
    def steps(self) -> int:
        """How many steps were run, in this run and those it continues."""
        return int(self.variable.numpy()[1])

    def start(self, steps: int) -> None:
        self._between = False
        self.variable.assign([0, steps])

    def advance(self) -> None:
        """In the graph of a step: the next one is another."""
        self.variable.assign_add([0, 1], read_value=False)

    def run_between(self) -> None:
        """Something is run that is no step: it draws other numbers than any before."""
        self.variable.assign_add([_NEXT_RUN, 0], read_value=False)
        self._between = True

    def settle(self) -> None:
        """Before a step, which does not depend on what was run in between."""
        if self._between:
            self.start(self.steps)


def is_twin(name: str) -> bool:
    """Whether an op of this name was made by `key_random_ops`."""
    return name.startswith(_SCOPE)


def has_random_ops(graph: tf.Graph) -> bool:
    """Whether there is anything to key."""
    return any(_is_to_be_replaced(op) for op in graph.get_operations())


def _is_to_be_replaced(op: tf.Operation) -> bool:
    return op.type in _TWINS and bool(op.outputs[0].consumers())


def key_random_ops(graph: tf.Graph, count: Draws | tf.Variable, worker: int = 0) -> None:
    """Replace the stateful random ops of `graph` by twins that depend on `count`.

    It counts steps, or is the global step. The same graph on another `worker` of a cluster draws
    other values.
    """
    with graph.as_default(), tf.name_scope(_SCOPE), tf.control_dependencies(None):
        if isinstance(count, Draws):
            now = count.variable.read_value()
        else:
            now = tf.stack([tf.zeros([], tf.int64), tf.cast(count.read_value(), tf.int64)])
        found = [op for op in graph.get_operations() if _is_to_be_replaced(op)]
        for index, op in enumerate(found):
            consumers = list(op.outputs[0].consumers())
            # Op seeds depend on all that was built before; the index among random ops does not.
            # An op with a seed of its own may not have the graph's seed beside it.
            stream = op.get_attr("seed") ^ (index + 1) * 0x9E3779B1 ^ op.get_attr("seed2")
            stream ^= worker * 0x85EBCA6B_0000
            seeds = tf.bitwise.bitwise_xor(tf.constant([stream & _63_BITS, 0], tf.int64), now)
            key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=seeds)
            value = _TWINS[op.type](op, key, counter)
            value.set_shape(op.outputs[0].shape)
            for consumer in consumers:
                for i, tensor in enumerate(consumer.inputs):
                    if tensor is op.outputs[0]:
                        tf_private.replace_input(consumer, i, value)


def warn_about_uncovered_ops(needed: Iterable[tf.Operation]) -> None:
    """Tell of random ops among `needed`, and in bodies that they run, which keep their state."""
    ops = list(needed)
    at_top = {op.name for op in ops}
    found = [
        f"{node.op} ({node.name})"
        for node in op_kinds.call_tree(ops[0].graph, ops)
        if node.op in _WITHOUT_TWIN or (node.op in _TWINS and node.name not in at_top)
    ]
    if found:
        _log.warning(
            "Some random numbers will not be the same again when this training is interrupted and "
            "resumed, as those of other ops are: %s. To have them so, draw them outside of cond "
            "and while_loop, or with tf.random.stateless_uniform(shape, seed=[7, global_step]) "
            "or another of its kind.",
            ", ".join(found[:3]) + (", ..." if len(found) > 3 else ""),
        )
