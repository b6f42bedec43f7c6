"""Random ops whose values depend on the step, not on how often a kernel has run.

A stateful random op (the one inside `tf.nn.dropout`) counts its own calls in memory that no
checkpoint holds: a resumed run would draw the masks of the first steps again. Replacing it by
its stateless twin, keyed by the op's seeds and a count of the steps that were run, makes a run
that was killed and resumed draw exactly what the uninterrupted one drew. The count is kept with
each checkpoint. (It is not the global step, which may stand still while gradients accumulate.)

Those in the bodies of functions, branches and loops are made so while they are traced
(`random_bodies`). What is out of reach stays as it is, and the user is told.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.engine.rewriting import op_kinds

_log = logging.getLogger("tensorflow")

ALGORITHM = 1  # Philox
_63_BITS = 2**62 - 1
_NEXT_RUN = 0x2545F491_4F6CDD1D  # odd, so that no two of many sums of it are alike


def _uniform(op: tf.Operation, key: tf.Tensor, counter: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.StatelessRandomUniformV2(
        shape=op.inputs[0], key=key, counter=counter, alg=ALGORITHM, dtype=op.outputs[0].dtype
    )


def _normal(op: tf.Operation, key: tf.Tensor, counter: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.StatelessRandomNormalV2(
        shape=op.inputs[0], key=key, counter=counter, alg=ALGORITHM, dtype=op.outputs[0].dtype
    )


def _truncated_normal(op: tf.Operation, key: tf.Tensor, counter: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.StatelessTruncatedNormalV2(
        shape=op.inputs[0], key=key, counter=counter, alg=ALGORITHM, dtype=op.outputs[0].dtype
    )


def _uniform_int(op: tf.Operation, key: tf.Tensor, counter: tf.Tensor) -> tf.Tensor:
    return tf.raw_ops.StatelessRandomUniformIntV2(
        shape=op.inputs[0],
        key=key,
        counter=counter,
        alg=ALGORITHM,
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
        self._tickets: list[tf.Variable] = []
        # By the name of an op that depends on the count, the one that stood in its place.
        self.replaced: dict[str, str] = {}
        self._between = False

    @functools.cached_property
    def variable(self) -> tf.Variable:
        """Runs since the last step (as a sum that is not repeated), and steps."""
        return self._counter([0, 0])

    def _counter(self, value: Any) -> tf.Variable:
        with tf.init_scope():  # not through creators of variables: it is none of the model's
            variable = tf_private.ResourceVariable(
                value, dtype=tf.int64, trainable=False, name=f"{op_kinds.RANDOM_SCOPE}/draws"
            )
        variable.none_of_the_model = True
        return variable

    @property
    def variables(self) -> list[tf.Variable]:
        """All that is counted."""
        return [self.variable, *self._tickets]

    @property
    def in_use(self) -> bool:
        """Whether a random op has asked for a key."""
        return "variable" in self.__dict__

    def now(self) -> tf.Tensor:
        """In a graph: what numbers drawn in this run depend on."""
        with tf.control_dependencies(None):
            return self.variable.read_value()

    def ticket(self) -> tf.Tensor:
        """In the body of a function: what tells this run of an op in it from others of the step."""
        ticket = self._counter(0)
        self._tickets.append(ticket)
        return tf.stack([ticket.assign_add(1) * _NEXT_RUN, 0])

    @property
    def steps(self) -> int:
        """How many steps were run, in this run and those it continues."""
        return int(self.variable.numpy()[1])

    def start(self, steps: int) -> None:
        self._between = False
        self.variable.assign([0, steps])
        for ticket in self._tickets:
            ticket.assign(0)

    def advance(self) -> None:
        """In the graph of a step: the next one is another."""
        self.variable.assign_add([0, 1], read_value=False)
        for ticket in self._tickets:
            ticket.assign(0, read_value=False)

    def run_between(self) -> None:
        """Something is run that is no step: it draws other numbers than any before."""
        self.variable.assign_add([_NEXT_RUN, 0], read_value=False)
        self._between = True

    def settle(self) -> None:
        """Before a step, which does not depend on what was run in between."""
        if self._between:
            self.start(self.steps)


def stream(seed: int, seed2: int, number: int, worker: int) -> int:
    """What tells the numbers of an op from those of others.

    Op seeds depend on all that was built before; the number among random ops does not. An op with
    a seed of its own may not have the graph's seed beside it.
    """
    return (seed ^ number * 0x9E3779B1 ^ seed2 ^ worker * 0x85EBCA6B_0000) & _63_BITS


def _is_to_be_replaced(op: tf.Operation) -> bool:
    return op.type in _TWINS and bool(op.outputs[0].consumers())


def key_random_ops(graph: tf.Graph, count: Draws | tf.Variable, worker: int = 0) -> None:
    """Replace the stateful random ops of `graph` by twins that depend on `count`.

    It counts steps, or is the global step. The same graph on another `worker` of a cluster draws
    other values.
    """
    random_ops = [op for op in graph.get_operations() if _is_to_be_replaced(op)]
    if not random_ops:
        return
    with graph.as_default(), tf.name_scope(op_kinds.RANDOM_SCOPE), tf.control_dependencies(None):
        if isinstance(count, Draws):
            now = count.now()
        else:
            now = tf.stack([tf.zeros([], tf.int64), tf.cast(count.read_value(), tf.int64)])
        for index, op in enumerate(random_ops):
            consumers = list(op.outputs[0].consumers())
            fixed = stream(op.get_attr("seed"), op.get_attr("seed2"), index + 1, worker)
            seeds = tf.bitwise.bitwise_xor(tf.constant([fixed, 0], tf.int64), now)
            key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=seeds)
            value = _TWINS[op.type](op, key, counter)
            value.set_shape(op.outputs[0].shape)
            if isinstance(count, Draws):
                count.replaced[value.op.name] = op.name
            for consumer in consumers:
                for i, tensor in enumerate(consumer.inputs):
                    if tensor is op.outputs[0]:
                        tf_private.replace_input(consumer, i, value)


def warn_about_uncovered_ops(needed: Iterable[tf.Operation]) -> None:
    """Tell of random ops among `needed`, and in bodies that they run, which keep their state."""
    ops = list(needed)
    at_top = {op.name for op in ops}
    uncovered = [
        f"{node.op} ({node.name})"
        for node in op_kinds.call_tree(ops[0].graph, ops)
        if node.op in _WITHOUT_TWIN or (node.op in _TWINS and node.name not in at_top)
    ]
    if uncovered:
        _log.warning(
            "Some random numbers will not be the same again when this training is interrupted and "
            "resumed, as those of other ops are: %s. To have them so, draw them in model_fn itself "
            "(not in a tf.function that was used before), or with "
            "tf.random.stateless_uniform(shape, seed=[7, global_step]) or another of its kind.",
            ", ".join(uncovered[:3]) + (", ..." if len(uncovered) > 3 else ""),
        )
