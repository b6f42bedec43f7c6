"""What a layer demands of its inputs, and the one check that says what was wrong with them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from estimand.compat.v1.layers.errors import LayerError


@dataclass
class InputSpec:
    """The dtype, rank and sizes that a layer accepts; `None` means anything.

    >>> InputSpec(min_ndim=2, axes={-1: 3}).complaint(tf.ones([4, 5]))
    'expected axis -1 of input shape to have value 3, but received input with shape (4, 5)'
    """

    dtype: Any = None
    shape: Any = None
    ndim: int | None = None
    max_ndim: int | None = None
    min_ndim: int | None = None
    axes: Mapping[int, int | None] | None = field(default=None)

    def __post_init__(self) -> None:
        self.axes = {int(axis): size for axis, size in (self.axes or {}).items()}
        if self.shape is not None:
            self.shape = tf.TensorShape(self.shape)
            self.ndim = self.shape.rank

    def complaint(self, tensor: Any) -> str | None:
        """Why `tensor` is not acceptable, or `None` if it is."""
        return next(self._complaints(tensor), None)

    def _complaints(self, tensor: Any) -> Iterator[str]:
        shape = tensor.shape
        if self.dtype is not None and tensor.dtype != tf.as_dtype(self.dtype):
            yield f"expected dtype={tf.as_dtype(self.dtype).name}, found dtype={tensor.dtype.name}"
        if shape.rank is None:
            return
        received = f"found ndim={shape.rank}. Full shape received: {_written(shape)}"
        if self.ndim is not None and shape.rank != self.ndim:
            yield f"expected ndim={self.ndim}, {received}"
        if self.max_ndim is not None and shape.rank > self.max_ndim:
            yield f"expected max_ndim={self.max_ndim}, {received}"
        if self.min_ndim is not None and shape.rank < self.min_ndim:
            yield f"expected min_ndim={self.min_ndim}, {received}"
        for axis, size in self.axes.items() if self.axes else ():
            if size is not None and shape[axis] not in (size, None):
                yield (
                    f"expected axis {axis} of input shape to have value {size}, "
                    f"but received input with shape {_written(shape)}"
                )
        if self.shape is not None and not self.shape.is_compatible_with(shape):
            yield f"expected shape={_written(self.shape)}, found shape={_written(shape)}"


def check_inputs(specs: Any, inputs: Any, layer_name: str) -> None:
    """Raise if an input does not fit what the layer declared."""
    if specs is None:
        return
    expected = tf.nest.flatten(specs)
    received = tf.nest.flatten(inputs)
    if len(expected) != len(received):
        raise LayerError(
            f"Layer {layer_name} expects {len(expected)} input(s), "
            f"but it received {len(received)} input tensors: {received}"
        )
    for index, (spec, tensor) in enumerate(zip(expected, received, strict=True)):
        complaint = spec.complaint(tensor) if spec is not None else None
        if complaint:
            raise LayerError(
                f"Input {index} of layer {layer_name} is incompatible with the layer: {complaint}"
            )


def _written(shape: tf.TensorShape) -> str:
    return str(tuple(shape.as_list()))
