"""Depthwise-separable convolutions: one filter for each channel, then a mix of the channels."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.compat.v1.layers.arguments import CHANNELS_LAST, in_a_supported_layout
from estimand.compat.v1.layers.convolutional import ZEROS, ConvolutionBase
from estimand.compat.v1.layers.variables import whole


class _SeparableConv(ConvolutionBase):
    """A separable convolution.

    Variables: `depthwise_kernel` of shape [*kernel_size, input channels, depth_multiplier],
    `pointwise_kernel` of shape [1, .., input channels * depth_multiplier, filters], `bias`.

    Args:
        filters: the number of output channels.
        kernel_size, strides, dilation_rate: one int, or one for each dimension.
        padding: `valid` or `same`, in any case; `causal` too in one dimension.
        data_format: `channels_last` or `channels_first`.
        depth_multiplier: how many depthwise filters each input channel gets.
    """

    def __init__(
        self,
        filters: int,
        kernel_size: Any,
        strides: Any = 1,
        padding: str = "valid",
        data_format: str = "channels_last",
        dilation_rate: Any = 1,
        depth_multiplier: int = 1,
        activation: Any = None,
        use_bias: bool = True,
        depthwise_initializer: Any = None,
        pointwise_initializer: Any = None,
        bias_initializer: Any = ZEROS,
        depthwise_regularizer: Any = None,
        pointwise_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        depthwise_constraint: Any = None,
        pointwise_constraint: Any = None,
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
        self.depth_multiplier = depth_multiplier
        self.depthwise_initializer = depthwise_initializer
        self.pointwise_initializer = pointwise_initializer
        self.depthwise_regularizer = depthwise_regularizer
        self.pointwise_regularizer = pointwise_regularizer
        self.depthwise_constraint = depthwise_constraint
        self.pointwise_constraint = pointwise_constraint

    def build(self, input_shape: Any) -> None:
        channels = self.settle_channels(input_shape)
        self.depthwise_kernel = self.add_weight(
            "depthwise_kernel",
            shape=[*self.kernel_size, channels, self.depth_multiplier],
            initializer=self.depthwise_initializer,
            regularizer=self.depthwise_regularizer,
            constraint=self.depthwise_constraint,
        )
        self.pointwise_kernel = self.add_weight(
            "pointwise_kernel",
            shape=[*[1] * self.rank, channels * self.depth_multiplier, self.filters],
            initializer=self.pointwise_initializer,
            regularizer=self.pointwise_regularizer,
            constraint=self.pointwise_constraint,
        )
        self.add_bias()

    def separable(
        self,
        inputs: Any,
        depthwise: Any,
        pointwise: Any,
        strides: tuple[int, ...],
        dilations: tuple[int, ...],
    ) -> Any:
        def convolve(tensor: Any, layout: str) -> Any:
            return tf.nn.separable_conv2d(
                tensor,
                depthwise,
                pointwise,
                strides=[1, *strides, 1] if layout.endswith("C") else [1, 1, *strides],
                padding=self.op_padding,
                dilations=list(dilations),
                data_format=layout,
            )

        return in_a_supported_layout(inputs, self.data_format, convolve, rank=2)


class SeparableConv1D(_SeparableConv):
    """A separable convolution along sequences [batch, length, channels]."""

    rank = 1

    def call(self, inputs: Any) -> Any:
        # There is no one-dimensional kernel: convolve a picture that is one pixel high.
        height_axis = 1 if self.data_format == CHANNELS_LAST else 2
        outputs = self.separable(
            tf.expand_dims(self.padded_for_causality(inputs), height_axis),
            tf.expand_dims(whole(self.depthwise_kernel), 0),
            tf.expand_dims(whole(self.pointwise_kernel), 0),
            strides=self.strides * 2,
            dilations=(1, *self.dilation_rate),
        )
        return self.activated(tf.squeeze(self._biased_picture(outputs), [height_axis]))

    def _biased_picture(self, outputs: Any) -> Any:
        if not self.use_bias:
            return outputs
        layout = "NHWC" if self.data_format == CHANNELS_LAST else "NCHW"
        return tf.nn.bias_add(outputs, whole(self.bias), data_format=layout)


class SeparableConv2D(_SeparableConv):
    """A separable convolution over images [batch, height, width, channels].

    Example:

        features = layers.SeparableConv2D(64, 3, padding="same", use_bias=False)(images)
    """

    rank = 2

    def call(self, inputs: Any) -> Any:
        outputs = self.separable(
            inputs,
            whole(self.depthwise_kernel),
            whole(self.pointwise_kernel),
            strides=self.strides,
            dilations=self.dilation_rate,
        )
        return self.activated(self.biased(outputs))
