"""`tf.contrib.layers`: convolutions, with contrib's names."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.compat.v1.contrib_modules.framework.arg_scope import add_arg_scope
from estimand.compat.v1.contrib_modules.layers import utils
from estimand.compat.v1.contrib_modules.layers.arguments import CHANNELS_LAST, LayerArguments

_each = utils.n_positive_integers


@add_arg_scope
def convolution(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str | None = None,
    rate: Any = 1,
    *args: Any,
    **kwargs: Any,
) -> tf.Tensor:
    """A convolution; its variables are `Conv/weights` and `Conv/biases`."""
    layer = LayerArguments(*args, **kwargs)
    inputs = tf.convert_to_tensor(inputs)
    rank = inputs.shape.rank - 2
    with layer.opened("Conv", inputs) as here:
        kernel = [*_each(rank, kernel_size), _channels(inputs, data_format), int(num_outputs)]
        weights = layer.weights(kernel, inputs.dtype)
        strides, rates = _each(rank, stride), _each(rank, rate)
        outputs = tf.nn.convolution(inputs, weights, strides, padding.upper(), data_format, rates)
        return layer.finished(outputs, here, data_format)


conv2d = convolution2d = conv1d = convolution1d = conv3d = convolution3d = convolution


@add_arg_scope
def conv2d_transpose(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str | None = "NHWC",
    *args: Any,
    **kwargs: Any,
) -> tf.Tensor:
    """A transposed convolution: `Conv2d_transpose/weights`, [height, width, outputs, inputs]."""
    layer, layout = LayerArguments(*args, **kwargs), data_format or "NHWC"
    return _transposed("Conv2d_transpose", inputs, num_outputs, kernel_size, stride, padding,
                       layout, layer)  # fmt: skip


@add_arg_scope
def conv3d_transpose(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str | None = "NDHWC",
    *args: Any,
    **kwargs: Any,
) -> tf.Tensor:
    """The same over three dimensions: `Conv3d_transpose/weights`."""
    layer, layout = LayerArguments(*args, **kwargs), data_format or "NDHWC"
    return _transposed("Conv3d_transpose", inputs, num_outputs, kernel_size, stride, padding,
                       layout, layer)  # fmt: skip


convolution2d_transpose, convolution3d_transpose = conv2d_transpose, conv3d_transpose


def _transposed(
    name: str,
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any,
    padding: str,
    data_format: str,
    layer: LayerArguments,
) -> tf.Tensor:
    inputs = tf.convert_to_tensor(inputs)
    rank, last = inputs.shape.rank - 2, data_format in CHANNELS_LAST
    kernel, strides = _each(rank, kernel_size), _each(rank, stride)
    # How much more than stride times size a result has.
    valid = padding.upper() == "VALID"
    more = [max(k - s, 0) if valid else 0 for k, s in zip(kernel, strides, strict=True)]

    def sizes(of: Any) -> list[Any]:
        """The shape of the result; None where `of` does not know."""
        space = [of[axis] for axis in range(1 if last else 2, rank + (1 if last else 2))]
        grown = [
            None if size is None else size * s + m
            for size, s, m in zip(space, strides, more, strict=True)
        ]
        return [of[0], *grown, num_outputs] if last else [of[0], num_outputs, *grown]

    with layer.opened(name, inputs) as here:
        shape = [*kernel, int(num_outputs), _channels(inputs, data_format)]
        weights = layer.weights(shape, inputs.dtype)
        outputs = tf.nn.conv_transpose(
            inputs, weights, tf.stack(sizes(tf.shape(inputs))), strides, padding.upper(),
            data_format,
        )  # fmt: skip
        outputs.set_shape(sizes(inputs.shape.as_list()))
        return layer.finished(outputs, here, data_format)


@add_arg_scope
def separable_convolution2d(
    inputs: Any,
    num_outputs: int | None,
    kernel_size: Any,
    depth_multiplier: int = 1,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str | None = "NHWC",
    rate: Any = 1,
    *,
    pointwise_initializer: Any = None,
    **kwargs: Any,
) -> tf.Tensor:
    """A convolution of each channel, then one over channels unless `num_outputs` is None.

    Its variables are `SeparableConv2d/depthwise_weights`, `pointwise_weights` and `biases`.
    """
    layer, layout = LayerArguments(**kwargs), data_format or "NHWC"
    inputs = tf.convert_to_tensor(inputs)
    with layer.opened("SeparableConv2d", inputs) as here:
        channels = _channels(inputs, layout)
        kernel = [*_each(2, kernel_size), channels, depth_multiplier]
        depthwise = layer.weights(kernel, inputs.dtype, "depthwise_weights")
        strides = [1, *_each(2, stride), 1]
        if layout not in CHANNELS_LAST:
            strides = [1, 1, *_each(2, stride)]
        outputs = tf.nn.depthwise_conv2d(
            inputs, depthwise, strides, padding.upper(), layout, _each(2, rate)
        )
        if num_outputs is not None:
            shape = [1, 1, channels * depth_multiplier, int(num_outputs)]
            made = pointwise_initializer or layer.weights_initializer
            pointwise = LayerArguments(**{**kwargs, "weights_initializer": made}).weights(
                shape, inputs.dtype, "pointwise_weights"
            )
            outputs = tf.nn.conv2d(outputs, pointwise, 1, "VALID", layout)
        return layer.finished(outputs, here, layout)


separable_conv2d = separable_convolution2d


@add_arg_scope
def convolution2d_in_plane(
    inputs: Any,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    *args: Any,
    **kwargs: Any,
) -> tf.Tensor:
    """The same filter on each channel; its variables are `ConvInPlane/weights` and `biases`."""
    layer = LayerArguments(*args, **kwargs)
    inputs = tf.convert_to_tensor(inputs)
    with layer.opened("ConvInPlane", inputs) as here:
        weights = layer.weights([*_each(2, kernel_size), 1, 1], inputs.dtype)
        filters = tf.tile(weights, [1, 1, _channels(inputs, "NHWC"), 1])
        strides = [1, *_each(2, stride), 1]
        outputs = tf.nn.depthwise_conv2d(inputs, filters, strides, padding.upper())
        return layer.finished(outputs, here)


conv2d_in_plane = convolution2d_in_plane


def _channels(inputs: Any, data_format: str | None) -> int:
    return utils.channel_dimension(inputs.shape, data_format or "NHWC")
