"""Max and average pooling in one, two and three dimensions."""

from __future__ import annotations

from typing import Any, ClassVar

import tensorflow as tf

from estimand.compat.v1.layers.arguments import (
    CHANNELS_LAST,
    in_a_supported_layout,
    layout_name,
    padding_name,
    positive_ints,
    shape_with,
    spatial_shape,
    window_output_length,
)
from estimand.compat.v1.layers.base import Layer
from estimand.compat.v1.layers.errors import LayerError
from estimand.compat.v1.layers.input_spec import InputSpec

v1 = tf.compat.v1


class _Pooling(Layer):
    """What all pools share.

    Args:
        pool_size: the window, one int or one for each dimension.
        strides: the steps of the window, likewise.
        padding: `valid` or `same`.
        data_format: `channels_last` or `channels_first`.
    """

    rank: ClassVar[int]
    pool: ClassVar[Any]

    def __init__(
        self,
        pool_size: Any,
        strides: Any,
        padding: str = "valid",
        data_format: str = "channels_last",
        name: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        if strides is None:
            raise LayerError(
                f"Argument `strides` must not be None. Write strides={pool_size!r} for pools "
                "that touch without overlapping."
            )
        self.pool_size = positive_ints(pool_size, self.rank, "pool_size")
        self.strides = positive_ints(strides, self.rank, "strides")
        self.padding = padding_name(padding)
        self.data_format = layout_name(data_format)
        self.input_spec = InputSpec(ndim=self.rank + 2)

    def call(self, inputs: Any) -> Any:
        if self.rank > 1:
            return self._pool(inputs, self.pool_size, self.strides)
        # There is no one-dimensional kernel: pool a picture that is one pixel wide.
        width_axis = 2 if self.data_format == CHANNELS_LAST else 3
        picture = tf.expand_dims(inputs, width_axis)
        pooled = self._pool(picture, (*self.pool_size, 1), (*self.strides, 1))
        return tf.squeeze(pooled, [width_axis])

    def _pool(self, inputs: Any, window: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        def run(tensor: Any, layout: str) -> Any:
            return type(self).pool(
                tensor,
                ksize=_for_layout(window, layout),
                strides=_for_layout(strides, layout),
                padding=self.padding.upper(),
                data_format=layout,
            )

        return in_a_supported_layout(inputs, self.data_format, run, rank=len(window))

    def compute_output_shape(self, input_shape: Any) -> tf.TensorShape:
        shape = tf.TensorShape(input_shape)
        lengths = [
            window_output_length(length, window, self.padding, stride)
            for length, window, stride in zip(
                spatial_shape(shape, self.data_format), self.pool_size, self.strides, strict=True
            )
        ]
        channels = shape[-1] if self.data_format == CHANNELS_LAST else shape[1]
        return shape_with(shape[0], lengths, channels, self.data_format)


def _for_layout(sizes: tuple[int, ...], layout: str) -> list[int]:
    return [1, *sizes, 1] if layout.endswith("C") else [1, 1, *sizes]


class MaxPooling1D(_Pooling):
    """The largest value in each window of a sequence [batch, length, channels]."""

    rank = 1
    pool = staticmethod(v1.nn.max_pool)


class MaxPooling2D(_Pooling):
    """The largest value in each window of an image [batch, height, width, channels].

    Example:

        halved = layers.MaxPooling2D(2, strides=2)(images)
    """

    rank = 2
    pool = staticmethod(v1.nn.max_pool)


class MaxPooling3D(_Pooling):
    """The largest value in each window of a volume [batch, depth, height, width, channels]."""

    rank = 3
    pool = staticmethod(v1.nn.max_pool3d)


class AveragePooling1D(_Pooling):
    """The mean of each window of a sequence [batch, length, channels]."""

    rank = 1
    pool = staticmethod(v1.nn.avg_pool)


class AveragePooling2D(_Pooling):
    """The mean of each window of an image [batch, height, width, channels]."""

    rank = 2
    pool = staticmethod(v1.nn.avg_pool)


class AveragePooling3D(_Pooling):
    """The mean of each window of a volume [batch, depth, height, width, channels]."""

    rank = 3
    pool = staticmethod(v1.nn.avg_pool3d)


def _run(layer_class: type[_Pooling], inputs: Any, **arguments: Any) -> Any:
    return layer_class(**arguments)(inputs)


def max_pooling1d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: Any = None,
) -> Any:
    """One call of a `MaxPooling1D` layer: [batch, length, channels] pooled along its length."""
    return _run(MaxPooling1D, **locals())


def max_pooling2d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: Any = None,
) -> Any:
    """One call of a `MaxPooling2D` layer.

    >>> max_pooling2d(tf.ones([1, 28, 28, 3]), pool_size=[2, 2], strides=2).shape
    TensorShape([1, 14, 14, 3])
    """
    return _run(MaxPooling2D, **locals())


def max_pooling3d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: Any = None,
) -> Any:
    """One call of a `MaxPooling3D` layer: pooled along depth, height and width."""
    return _run(MaxPooling3D, **locals())


def average_pooling1d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: Any = None,
) -> Any:
    """One call of an `AveragePooling1D` layer: windows at the border average what they cover."""
    return _run(AveragePooling1D, **locals())


def average_pooling2d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: Any = None,
) -> Any:
    """One call of an `AveragePooling2D` layer.

    >>> average_pooling2d(tf.ones([1, 28, 28, 3]), pool_size=3, strides=2).shape
    TensorShape([1, 13, 13, 3])
    """
    return _run(AveragePooling2D, **locals())


def average_pooling3d(
    inputs: Any,
    pool_size: Any,
    strides: Any,
    padding: str = "valid",
    data_format: str = "channels_last",
    name: Any = None,
) -> Any:
    """One call of an `AveragePooling3D` layer: averaged along depth, height and width."""
    return _run(AveragePooling3D, **locals())
