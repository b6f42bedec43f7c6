"""`tf.contrib.layers`: convolutions, pooling and batch normalization, with contrib's names."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.compat.v1 import layers
from estimand.compat.v1.contrib_modules.arg_scope import add_arg_scope
from estimand.compat.v1.contrib_modules.layers import xavier_initializer

v1 = tf.compat.v1
_UPDATE_OPS = v1.GraphKeys.UPDATE_OPS
_CHANNELS_LAST = (None, "NHWC", "NWC", "NDHWC")


@add_arg_scope
def batch_norm(
    inputs: Any,
    decay: float = 0.999,
    center: bool = True,
    scale: bool = False,
    epsilon: float = 0.001,
    activation_fn: Any = None,
    param_initializers: dict[str, Any] | None = None,
    param_regularizers: dict[str, Any] | None = None,
    updates_collections: Any = _UPDATE_OPS,
    is_training: Any = True,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    batch_weights: Any = None,
    fused: bool | None = None,
    data_format: str | None = "NHWC",
    zero_debias_moving_mean: bool = False,
    scope: Any = None,
    **unsupported: Any,
) -> tf.Tensor:
    """Batch normalization; variables `BatchNorm/beta`, `gamma`, `moving_mean`, `moving_variance`.

    With `updates_collections=None` the moving averages move whenever the result is computed.
    """
    del variables_collections, outputs_collections
    unsupported |= {"batch_weights": batch_weights, "zero_debias": zero_debias_moving_mean or None}
    for name, value in unsupported.items():
        if value not in (None, False):
            raise NotImplementedError(
                f"tf.contrib.layers.batch_norm was given {name}={value!r}, which is not offered. "
                "Leave it out."
            )
    inputs = tf.convert_to_tensor(inputs)
    initializers, regularizers = dict(param_initializers or {}), dict(param_regularizers or {})
    with v1.variable_scope(scope, "BatchNorm", [inputs], reuse=reuse) as here:
        layer = layers.BatchNormalization(
            axis=-1 if data_format in _CHANNELS_LAST else 1,
            momentum=decay,
            epsilon=epsilon,
            center=center,
            scale=scale,
            **{f"{name}_initializer": made for name, made in initializers.items()},
            **{f"{name}_regularizer": made for name, made in regularizers.items()},
            fused=fused,
            trainable=trainable,
            name=here.name,
            _scope=here,
            _reuse=reuse,
        )
        outputs = _with_updates(layer, layer(inputs, training=is_training), updates_collections)
        return outputs if activation_fn is None else activation_fn(outputs)


def _with_updates(layer: Any, outputs: tf.Tensor, collections: Any) -> tf.Tensor:
    """Moves the updates from where a layer puts them to where they were asked for."""
    updates = [u for u in layer.updates if hasattr(u, "graph")]
    if not updates or collections == _UPDATE_OPS:
        return outputs
    published = v1.get_collection_ref(_UPDATE_OPS)
    published[:] = [kept for kept in published if not any(kept is u for u in updates)]
    if collections is None:
        with tf.control_dependencies(updates):
            return tf.identity(outputs)
    for update in updates:
        v1.add_to_collections(collections, update)
    return outputs


@add_arg_scope
def convolution(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str | None = None,
    rate: Any = 1,
    activation_fn: Any = tf.nn.relu,
    normalizer_fn: Any = None,
    normalizer_params: dict[str, Any] | None = None,
    weights_initializer: Any = None,
    weights_regularizer: Any = None,
    biases_initializer: Any = v1.zeros_initializer(),  # noqa: B008 - None means no bias
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> tf.Tensor:
    """A convolution; its variables are `Conv/weights` and `Conv/biases`."""
    del variables_collections, outputs_collections
    inputs = tf.convert_to_tensor(inputs)
    rank = inputs.shape.rank - 2
    last = data_format in _CHANNELS_LAST
    channels = tf.compat.dimension_value(inputs.shape[-1 if last else 1])
    with v1.variable_scope(scope, "Conv", [inputs], reuse=reuse):
        weights = v1.get_variable(
            "weights",
            [*_each(kernel_size, rank), channels, num_outputs],
            inputs.dtype,
            weights_initializer or xavier_initializer(),
            weights_regularizer,
            trainable,
        )
        outputs = tf.nn.convolution(
            inputs, weights, _each(stride, rank), padding.upper(), data_format, _each(rate, rank)
        )
        return _finished(
            outputs,
            num_outputs,
            data_format,
            activation_fn,
            normalizer_fn,
            normalizer_params,
            (biases_initializer, biases_regularizer, trainable),
        )


conv2d = convolution2d = conv1d = conv3d = convolution


@add_arg_scope
def conv2d_transpose(
    inputs: Any,
    num_outputs: int,
    kernel_size: Any,
    stride: Any = 1,
    padding: str = "SAME",
    data_format: str | None = "NHWC",
    activation_fn: Any = tf.nn.relu,
    normalizer_fn: Any = None,
    normalizer_params: dict[str, Any] | None = None,
    weights_initializer: Any = None,
    weights_regularizer: Any = None,
    biases_initializer: Any = v1.zeros_initializer(),  # noqa: B008 - None means no bias
    biases_regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> tf.Tensor:
    """A transposed convolution: `Conv2d_transpose/weights`, [height, width, outputs, inputs]."""
    del variables_collections, outputs_collections
    inputs = tf.convert_to_tensor(inputs)
    last = data_format in _CHANNELS_LAST
    kernel, strides = _each(kernel_size, 2), _each(stride, 2)
    channels = tf.compat.dimension_value(inputs.shape[-1 if last else 1])
    with v1.variable_scope(scope, "Conv2d_transpose", [inputs], reuse=reuse):
        weights = v1.get_variable(
            "weights",
            [*kernel, num_outputs, channels],
            inputs.dtype,
            weights_initializer or xavier_initializer(),
            weights_regularizer,
            trainable,
        )
        space = (1, 2) if last else (2, 3)

        def sizes(of: Any) -> list[Any]:
            """How large the result is; None where `of` does not know."""
            more = [max(k - s, 0) if padding.upper() == "VALID" else 0 for k, s in
                    zip(kernel, strides, strict=True)]  # fmt: skip
            return [
                None if of[axis] is None else of[axis] * s + m
                for axis, s, m in zip(space, strides, more, strict=True)
            ]

        def whole(batch: Any, grown: list[Any]) -> list[Any]:
            return [batch, *grown, num_outputs] if last else [batch, num_outputs, *grown]

        dynamic = tf.shape(inputs)
        outputs = tf.nn.conv2d_transpose(
            inputs, weights, tf.stack(whole(dynamic[0], sizes(dynamic))), strides,
            padding.upper(), data_format or "NHWC",
        )  # fmt: skip
        known = inputs.shape.as_list()
        outputs.set_shape(whole(known[0], sizes(known)))
        return _finished(
            outputs,
            num_outputs,
            data_format,
            activation_fn,
            normalizer_fn,
            normalizer_params,
            (biases_initializer, biases_regularizer, trainable),
        )


convolution2d_transpose = conv2d_transpose


@add_arg_scope
def max_pool2d(
    inputs: Any,
    kernel_size: Any,
    stride: Any = 2,
    padding: str = "VALID",
    data_format: str | None = "NHWC",
    outputs_collections: Any = None,
    scope: str | None = None,
) -> tf.Tensor:
    """The largest value of each window."""
    del outputs_collections
    window, strides = _each(kernel_size, 2), _each(stride, 2)
    name = scope or "MaxPool2D"
    return tf.nn.max_pool2d(inputs, window, strides, padding.upper(), data_format or "NHWC", name)


@add_arg_scope
def avg_pool2d(
    inputs: Any,
    kernel_size: Any,
    stride: Any = 2,
    padding: str = "VALID",
    data_format: str | None = "NHWC",
    outputs_collections: Any = None,
    scope: str | None = None,
) -> tf.Tensor:
    """The mean of each window."""
    del outputs_collections
    window, strides = _each(kernel_size, 2), _each(stride, 2)
    name = scope or "AvgPool2D"
    return tf.nn.avg_pool2d(inputs, window, strides, padding.upper(), data_format or "NHWC", name)


def _each(size: Any, rank: int) -> list[int]:
    return [int(one) for one in size] if isinstance(size, (list, tuple)) else [int(size)] * rank


def _finished(
    outputs: tf.Tensor,
    num_outputs: int,
    data_format: str | None,
    activation_fn: Any,
    normalizer_fn: Any,
    normalizer_params: dict[str, Any] | None,
    biases: tuple[Any, Any, bool],
) -> tf.Tensor:
    """A normalizer or biases, and then the activation."""
    initializer, regularizer, trainable = biases
    if normalizer_fn is not None:
        outputs = normalizer_fn(outputs, **(normalizer_params or {}))
    elif initializer is not None:
        made = v1.get_variable(
            "biases", [num_outputs], outputs.dtype, initializer, regularizer, trainable
        )
        layout = "NC..." if data_format not in _CHANNELS_LAST else None
        outputs = tf.nn.bias_add(outputs, made, layout)
    return outputs if activation_fn is None else activation_fn(outputs)
