"""A block of steps as one piece of machine code, made by XLA.

The batches of the block are taken from the input first and stacked; the compiled loop then runs
over them and touches nothing else. Compiling takes about a second, and is done once: the stack
always has the same number of places, of which a block uses as many as it has steps. So a step
computes the same, to the last bit, whichever block it falls into.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import tensorflow as tf

from estimand.engine import effects
from estimand.engine.tracing import Trace

_MOST_STEPS = 100
_FEWEST_STEPS = 10
_MOST_BYTES = 16 * 2**20

# XLA compiles these away or cannot take them at all; drawing random numbers it does its own way.
_CANNOT = (
    "Assert", "PyFunc", "EagerPyFunc", "Print", "WriteFile", "ReadFile", "LookupTable", "HashTable",
    "MutableHashTable", "Queue", "Iterator", "Send", "Recv", "Collective", "RandomUniform",
    "RandomStandardNormal", "TruncatedNormal", "RandomShuffle", "Multinomial", "RandomGamma",
    "RandomPoisson", "StatefulRandom", "Stack", "Barrier", "Unique", "Where", "SparseTensor",
    "DynamicPartition", "DecodeCSV", "ParseExample", "ParseSingleExample", "Bucketize",
)  # fmt: skip
# An index out of range is an error in TensorFlow; XLA takes the nearest one.
_UNCHECKED = ("Gather", "ResourceGather", "ResourceScatter", "Scatter", "TensorScatter")
_SLOWER = ("Conv", "DepthwiseConv", "MaxPool", "AvgPool", "FusedBatchNorm")

_Targets = Sequence[tf.Operation | tf.Tensor]


def shapes_of_batch(trace: Trace, batch_size: int | None) -> list[tf.TensorShape]:
    """The shapes of the inputs; `batch_size`, if it is certain, takes the place of a None."""
    shapes = [tensor.shape for tensor in trace.inputs]
    if batch_size is None:
        return shapes
    return [
        tf.TensorShape([batch_size, *shape[1:]]) if shape.rank and shape[0] is None else shape
        for shape in shapes
    ]


def obstacle(trace: Trace, targets: _Targets, shapes: Sequence[tf.TensorShape]) -> str | None:
    """Why the steps cannot be compiled into one piece; None: they may be."""
    if trace.strategy is not None:
        return "it runs on several devices"
    for tensor, shape in zip(trace.inputs, shapes, strict=True):
        if not shape.is_fully_defined():
            return f"the shape {shape} of its input is not fixed (try batch(drop_remainder=True))"
        if tensor.dtype in (tf.string, tf.variant, tf.resource):
            return f"its input has the type {tensor.dtype.name}"
    if _capacity(trace.inputs, shapes) < _FEWEST_STEPS:
        return "its batches are too large"
    needed = _needed(targets)
    for op in needed:
        if op.type.startswith(_CANNOT):
            return f"it uses the op {op.type} ({op.name})"
        if any(t.dtype == tf.string for t in op.outputs):
            return f"it computes with strings ({op.name})"
    names = {op.name for op in needed}
    for outer, inner in trace.graph.captures:  # type: ignore[attr-defined]
        if inner.op.name in names and not hasattr(outer, "numpy"):
            return f"it uses {inner.op.name}, which is no variable"
    return None


def is_promising(trace: Trace, targets: _Targets) -> bool:
    """Whether to try it unasked: where it may be faster, and meets bad data as TensorFlow does."""
    return not any(op.type.startswith(_UNCHECKED + _SLOWER) for op in _needed(targets))


def _capacity(inputs: Sequence[tf.Tensor], shapes: Sequence[tf.TensorShape]) -> int:
    """How many batches are stacked."""
    size = sum(s.num_elements() * t.dtype.size for t, s in zip(inputs, shapes, strict=True))
    return int(min(_MOST_STEPS, _MOST_BYTES // max(1, size)))


def _needed(targets: Iterable[tf.Operation | tf.Tensor]) -> list[tf.Operation]:
    return list(effects.ancestors(getattr(t, "op", t) for t in targets).values())


class WholeLoop:
    """The compiled loop; `one_step` places a step on a batch into the graph being built."""

    def __init__(
        self,
        trace: Trace,
        shapes: Sequence[tf.TensorShape],
        one_step: Callable[[list[tf.Tensor]], tf.Tensor],
        result_type: tf.DType,
    ) -> None:
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
        return self._run(steps, *(array.stack() for array in done[1:]))
