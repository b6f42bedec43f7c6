"""Transposed convolutions: from what a convolution gives back to what it was given."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.compat.v1.layers.arguments import (
    in_a_supported_layout,
    shape_with,
    spatial_shape,
)
from estimand.compat.v1.layers.convolutional import ZEROS, ConvolutionBase
from estimand.compat.v1.layers.variables import whole


class _ConvTranspose(ConvolutionBase):
    """A transposed convolution.

    Variables: `kernel` of shape [*kernel_size, filters, input channels] and `bias` [filters].

    Args:
        filters: the number of output channels.
        kernel_size, strides: one int, or one for each dimension.
        padding: `valid` or `same`, in any case.
        data_format: `channels_last` or `channels_first`.
    """

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = ZEROS,
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        trainable: bool = True,
        name: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            filters=filters,
            kernel_size=kernel_size,
            strides=strides,
            padding=padding,
            data_format=data_format,
            dilation_rate=1,
            activation=activation,
            use_bias=use_bias,
            bias_initializer=bias_initializer,
            bias_regularizer=bias_regularizer,
            bias_constraint=bias_constraint,
            activity_regularizer=activity_regularizer,
            trainable=trainable,
            name=name,
            **kwargs,
        )
        self.kernel_initializer = kernel_initializer
        self.kernel_regularizer = kernel_regularizer
        self.kernel_constraint = kernel_constraint

    def build(self, input_shape: Any) -> None:
        channels = self.settle_channels(input_shape)
        self.kernel = self.add_weight(
            "kernel",
            shape=[*self.kernel_size, self.filters, channels],
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        self.add_bias()

    def call(self, inputs: Any) -> Any:
        def convolve(tensor: Any, layout: str) -> Any:
            last = layout.endswith("C")
            transposed = tf.nn.conv2d_transpose if self.rank == 2 else tf.nn.conv3d_transpose
            return transposed(
                tensor,
                whole(self.kernel),
                output_shape=self._runtime_output_shape(tensor, last),
                strides=[1, *self.strides, 1] if last else [1, 1, *self.strides],
                padding=self.op_padding,
                data_format=layout,
            )

        outputs = in_a_supported_layout(inputs, self.data_format, convolve, rank=self.rank)
        outputs.set_shape(self.compute_output_shape(inputs.shape))
        return self.activated(self.biased(outputs))

    def _runtime_output_shape(self, inputs: Any, channels_last: bool) -> Any:
        """Sizes known while building as numbers, the others as tensors."""
        dynamic = tf.shape(inputs)
        sizes = [
            dynamic[axis] if size is None else size
            for axis, size in enumerate(inputs.shape.as_list())
        ]
        spatial = sizes[1:-1] if channels_last else sizes[2:]
        lengths = self._output_lengths(spatial)
        if channels_last:
            return tf.stack([sizes[0], *lengths, self.filters])
        return tf.stack([sizes[0], self.filters, *lengths])

    def _output_lengths(self, lengths: list[Any]) -> list[Any]:
        """Every input makes `stride` outputs; a window wider than that hangs over the end."""
        overhangs = [
            max(kernel - stride, 0) if self.padding == "valid" else 0
            for kernel, stride in zip(self.kernel_size, self.strides, strict=True)
        ]
        return [
            None if length is None else length * stride + overhang
            for length, stride, overhang in zip(lengths, self.strides, overhangs, strict=True)
        ]

    def compute_output_shape(self, input_shape: Any) -> tf.TensorShape:
        shape = tf.TensorShape(input_shape)
        lengths = self._output_lengths(spatial_shape(shape, self.data_format))
        return shape_with(shape[0], lengths, self.filters, self.data_format)


class Conv2DTranspose(_ConvTranspose):
    """A transposed convolution over images [batch, height, width, channels].

    Example:

        doubled = layers.Conv2DTranspose(16, 3, strides=2, padding="same")(images)
    """

    rank = 2


class Conv3DTranspose(_ConvTranspose):
    """A transposed convolution over volumes [batch, depth, height, width, channels]."""

    rank = 3
