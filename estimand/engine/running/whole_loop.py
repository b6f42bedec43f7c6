"""A block of steps as one piece of machine code, made by XLA.

The batches of the block are taken from the input first and stacked; the compiled loop then runs
over them and touches nothing else. Compiling takes about a second, and is done once: the stack
always has the same number of places, of which a block uses as many as it has steps. So a step
computes the same, to the last bit, whichever block it falls into.

What XLA computes of a label out of range is NaN. So labels are looked at before they go into the
compiled loop, and a wrong one is the error that it is elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from estimand.engine.running import gates
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


class WholeLoop:
    """The compiled loop; `one_step` places a step on a batch into the graph being built."""

    def __init__(
        self,
        trace: Trace,
        shapes: Sequence[tf.TensorShape],
        one_step: Callable[[list[tf.Tensor]], tf.Tensor],
        result_type: tf.DType,
        targets: gates.Targets = (),
    ) -> None:
        self._labels = list(gates.labels_in_input(trace, gates.needed(targets)).values())
        self.capacity = _capacity(trace.inputs, shapes)
        self.batch_spec = [
            tf.TensorSpec(shape, tensor.dtype)
            for tensor, shape in zip(trace.inputs, shapes, strict=True)
        ]

        @tf.function(jit_compile=True, autograph=False)
        def run(steps: tf.Tensor, *batches: tf.Tensor) -> tf.Tensor:
            def body(index: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
                return index + 1, one_step([tf.gather(b, index) for b in batches])

            start = (tf.constant(0), tf.zeros([], result_type))
            return tf.while_loop(lambda i, _: i < steps, body, start)[1]

        self._run = run

    def build(self, steps: tf.Tensor, next_batch: Callable[[], list[tf.Tensor]]) -> tf.Tensor:
        """Into the function being built: take the batches, run the steps; the last result."""

        def take(index: tf.Tensor, *arrays: tf.TensorArray) -> tuple:
            shaped = zip(next_batch(), self.batch_spec, strict=True)
            batch = [tf.ensure_shape(tensor, spec.shape) for tensor, spec in shaped]
            taken = [a.write(index, b) for a, b in zip(arrays, batch, strict=True)]
            return index + 1, *taken

        arrays = [
            tf.TensorArray(s.dtype, self.capacity, element_shape=s.shape) for s in self.batch_spec
        ]
        done = tf.while_loop(lambda i, *_: i < steps, take, (tf.constant(0), *arrays))
        batches = [array.stack() for array in done[1:]]
        for index, classes in self._labels:
            steps += _checked(batches[index], classes)
        return self._run(steps, *batches)


def _checked(labels: tf.Tensor, classes: int) -> tf.Tensor:
    """Zero; or the error of the ordinary op, if there is one out of range."""
    labels = tf.cast(labels, tf.int64)
    wrong = (labels < 0) | (labels >= classes)

    def fail() -> tf.Tensor:
        which = tf.boolean_mask(labels, wrong)
        logits = tf.zeros([tf.size(which), classes])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=which, logits=logits)
        return tf.cast(losses[0] < 0, tf.int32)  # something that depends on it

    return tf.cond(tf.reduce_any(wrong), fail, lambda: tf.constant(0))
