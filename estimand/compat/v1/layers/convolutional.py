"""Convolutions in one, two and three dimensions; the base class of all convolution layers."""

from __future__ import annotations

from typing import Any, ClassVar

import tensorflow as tf

from estimand.compat.v1.layers import identifiers
from estimand.compat.v1.layers.arguments import (
    CHANNELS_LAST,
    in_a_supported_layout,
    layout_name,
    padding_name,
    positive_count,
    positive_ints,
    shape_with,
    spatial_shape,
    window_output_length,
)
from estimand.compat.v1.layers.base import Layer
from estimand.compat.v1.layers.errors import LayerError
from estimand.compat.v1.layers.input_spec import InputSpec
from estimand.compat.v1.layers.variables import whole

ZEROS = tf.compat.v1.zeros_initializer()


class ConvolutionBase(Layer):
    """Arguments, bias and activation: what plain, transposed and separable convolutions share."""

    rank: ClassVar[int]

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any,
        padding: str,
        data_format: str,
        dilation_rate: Any,
        activation: Any,
        use_bias: bool,
        bias_initializer: Any,
        bias_regularizer: Any,
        bias_constraint: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.filters = positive_count(filters, "filters")
        self.kernel_size = positive_ints(kernel_size, self.rank, "kernel_size")
        self.strides = positive_ints(strides, self.rank, "strides")
        self.padding = padding_name(padding, causal=self.rank == 1)
        self.data_format = layout_name(data_format)
        self.dilation_rate = positive_ints(dilation_rate, self.rank, "dilation_rate")
        self.activation = identifiers.activation(activation)
        self.use_bias = use_bias
        self.bias_initializer = bias_initializer
        self.bias_regularizer = bias_regularizer
        self.bias_constraint = bias_constraint
        self.input_spec = InputSpec(ndim=self.rank + 2)
        if max(self.strides) > 1 and max(self.dilation_rate) > 1:
            raise LayerError(
                "`strides > 1` not supported in conjunction with `dilation_rate > 1`. "
                f"Received: strides={self.strides} and dilation_rate={self.dilation_rate}"
            )

    @property
    def channel_axis(self) -> int:
        return -1 if self.data_format == CHANNELS_LAST else 1

    def settle_channels(self, input_shape: Any) -> int:
        """The number of input channels, from now on demanded of every input."""
        input_shape = tf.TensorShape(input_shape)
        channels = input_shape[self.channel_axis] if input_shape.rank is not None else None
        if channels is None:
            raise LayerError(
                "The channel dimension of the inputs should be defined. The input_shape received "
                f"is {input_shape}, where axis {self.channel_axis} (0-based) is the channel "
                "dimension, which found to be `None`."
            )
        self.input_spec = InputSpec(ndim=self.rank + 2, axes={self.channel_axis: channels})
        return channels

    def add_bias(self) -> None:
        """Make the variable `bias`, if the layer has one."""
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                "bias",
                shape=[self.filters],
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )

    def biased(self, outputs: Any) -> Any:
        if not self.use_bias:
            return outputs
        bias = whole(self.bias)
        if self.data_format == CHANNELS_LAST:
            return tf.nn.bias_add(outputs, bias)
        if self.rank == 1:
            return outputs + tf.reshape(bias, [1, self.filters, 1])
        return tf.nn.bias_add(outputs, bias, data_format="NCHW")

    def activated(self, outputs: Any) -> Any:
        return outputs if self.activation is None else self.activation(outputs)

    def padded_for_causality(self, inputs: Any) -> Any:
        """Zeros on the left, so that no output sees what comes after it."""
        if self.padding != "causal":
            return inputs
        before = [self.dilation_rate[0] * (self.kernel_size[0] - 1), 0]
        along_channels_last = [[0, 0], before, [0, 0]]
        along_channels_first = [[0, 0], [0, 0], before]
        last = self.data_format == CHANNELS_LAST
        return tf.pad(inputs, along_channels_last if last else along_channels_first)

    @property
    def op_padding(self) -> str:
        return "VALID" if self.padding == "causal" else self.padding.upper()

    def compute_output_shape(self, input_shape: Any) -> tf.TensorShape:
        shape = tf.TensorShape(input_shape)
        lengths = [
            window_output_length(length, kernel, self.padding, stride, dilation)
            for length, kernel, stride, dilation in zip(
                spatial_shape(shape, self.data_format),
                self.kernel_size,
                self.strides,
                self.dilation_rate,
                strict=True,
            )
        ]
        return shape_with(shape[0], lengths, self.filters, self.data_format)


class _Conv(ConvolutionBase):
    """A plain convolution.

    Variables: `kernel` of shape [*kernel_size, input channels, filters] and `bias` [filters].

    Args:
        filters: the number of output channels.
        kernel_size, strides, dilation_rate: one int, or one for each dimension.
        padding: `valid` or `same`, in any case; `causal` too in one dimension.
        data_format: `channels_last` or `channels_first`.
    """

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = 1,
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
            dilation_rate=dilation_rate,
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
            shape=[*self.kernel_size, channels, self.filters],
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        self.add_bias()

    def call(self, inputs: Any) -> Any:
        def convolve(tensor: Any, layout: str) -> Any:
            return tf.nn.convolution(
                tensor,
                whole(self.kernel),
                strides=list(self.strides),
                padding=self.op_padding,
                data_format=layout,
                dilations=list(self.dilation_rate),
                name=type(self).__name__,
            )

        padded = self.padded_for_causality(inputs)
        outputs = in_a_supported_layout(padded, self.data_format, convolve, rank=self.rank)
        return self.activated(self.biased(outputs))


class Conv1D(_Conv):
    """A convolution along sequences [batch, length, channels]."""

    rank = 1


class Conv2D(_Conv):
    """A convolution over images [batch, height, width, channels].

    Example:

        edges = layers.Conv2D(32, 5, padding="same", activation=tf.nn.relu)(images)
    """

    rank = 2


class Conv3D(_Conv):
    """A convolution over volumes [batch, depth, height, width, channels]."""

    rank = 3
