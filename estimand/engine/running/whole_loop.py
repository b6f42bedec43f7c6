"""A block of steps as one piece of machine code, made by XLA.

Where the input lies in memory, the compiled loop gathers the rows of each batch by itself. Else the
batches of the block are taken from the input first and stacked. The variables are read before the
first step, carried from step to step, and written back after the last. Compiling takes about a
second, and is done once: the stack, or the list of rows, always has the same number of places, of
which a block uses as many as it has steps. So a step computes the same, to the last bit, whichever
block it falls into.

The loop goes on while the next batch passes what the step checks of it (see `batch_checks`); with
one that does not, the step fails as it does elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.engine.feeding.supply import Supply
from estimand.engine.running import gates
from estimand.engine.running.batch_checks import BatchChecks
from estimand.engine.tracing.trace import Trace

_MOST_STEPS = 100
_FEWEST_STEPS = 10
_MOST_BYTES = 16 * 2**20

_SLOWER = ("Conv", "DepthwiseConv", "MaxPool", "AvgPool", "FusedBatchNorm")


def shapes_of_batch(trace: Trace, batch_size: int | None) -> list[tf.TensorShape]:
    """The shapes of the inputs; `batch_size`, if it is certain, takes the place of a None."""
    shapes = [tensor.shape for tensor in trace.inputs]
    if batch_size is None:
        return shapes
    return [
        tf.TensorShape([batch_size, *shape[1:]]) if shape.rank and shape[0] is None else shape
        for shape in shapes
    ]


def too_large(trace: Trace, shapes: Sequence[tf.TensorShape]) -> bool:
    """Whether too few batches would fit into the stack to be worth it."""
    return _capacity(trace.inputs, shapes) < _FEWEST_STEPS


def is_promising(targets: gates.Targets) -> bool:
    """Whether to try it unasked: where it may be faster."""
    return not any(op.type.startswith(_SLOWER) for op in gates.needed(targets))


def _capacity(inputs: Sequence[tf.Tensor], shapes: Sequence[tf.TensorShape]) -> int:
    """How many batches are stacked."""
    size = sum(s.num_elements() * t.dtype.size for t, s in zip(inputs, shapes, strict=True))
    return int(min(_MOST_STEPS, _MOST_BYTES // max(1, size)))


def stacked(trace: Trace, shapes: Sequence[tf.TensorShape]) -> Supply:
    """A stack with places for as many batches as fit."""
    steps = _capacity(trace.inputs, shapes)
    signature = [
        tf.TensorSpec([steps, *shape], tensor.dtype)
        for tensor, shape in zip(trace.inputs, shapes, strict=True)
    ]
    return Supply("stack", signature, (), _from_stack, steps, by_number=True)


def _from_stack(given: Sequence[tf.Tensor], number: tf.Tensor) -> list[tf.Tensor]:
    return [tf.gather(stack, number) for stack in given]


def stack(
    supply: Supply, batch_of: Callable[[tf.Tensor], list[tf.Tensor]], steps: tf.Tensor
) -> list[tf.Tensor]:
    """The batches of so many steps, in the places of a stack."""
    shapes = [spec.shape[1:] for spec in supply.signature]

    def take(number: tf.Tensor, *arrays: tf.TensorArray) -> tuple:
        shaped = zip(batch_of(number), shapes, strict=True)
        batch = [tf.ensure_shape(tensor, shape) for tensor, shape in shaped]
        taken = [a.write(number, b) for a, b in zip(arrays, batch, strict=True)]
        return number + 1, *taken

    arrays = [
        tf.TensorArray(spec.dtype, supply.steps, element_shape=shape)
        for spec, shape in zip(supply.signature, shapes, strict=True)
    ]
    done = tf.while_loop(lambda i, *_: i < steps, take, (tf.constant(0), *arrays))
    return [array.stack() for array in done[1:]]


class WholeLoop:
    """The compiled loop over batches of one form.

    `one_step` places a step on a batch into the graph being built, without what `checks` knows of
    the batch. Only what was compiled is kept, nothing of the input.
    """

    def __init__(
        self,
        trace: Trace,
        supply: Supply,
        one_step: Callable[[list[tf.Tensor]], tf.Tensor],
        result_type: tf.DType,
        checks: BatchChecks,
    ) -> None:
        self._trace, self._checks = trace, checks
        tf_private.keep_products_in_one_thread()

        @tf.function(jit_compile=True, autograph=False)
        def run(first: tf.Tensor, last: tf.Tensor, *given: tf.Tensor) -> tuple[tf.Tensor, ...]:
            def goes_on(number: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
                if not checks:
                    return number < last
                return (number < last) & checks.passed_by(trace, supply.draw(given, number))

            def body(number: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                return number + 1, one_step(supply.draw(given, number))

            return tf.while_loop(goes_on, body, (first, tf.zeros([], result_type)))

        number = tf.TensorSpec([], tf.int32)
        self._run = run.get_concrete_function(number, number, *supply.signature)

    def build(
        self, supply: Supply, given: Sequence[Any], first: tf.Tensor, steps: tf.Tensor
    ) -> tf.Tensor:
        """Into the function being built: the steps; the result of the last one."""
        last = first + steps
        reached, result = self._run(first, last, *given)
        if not self._checks:
            return result

        def fail() -> tf.Tensor:
            self._checks.fail(self._trace, supply.draw(given, reached))
            return tf.identity(result)

        return tf.cond(reached < last, fail, lambda: tf.identity(result))
