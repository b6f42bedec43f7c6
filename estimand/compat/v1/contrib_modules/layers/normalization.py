"""`tf.contrib.layers`: normalization by batch, layer, group and instance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimand.compat.v1 import layers
from estimand.compat.v1.contrib_modules.framework.arg_scope import add_arg_scope
from estimand.compat.v1.contrib_modules.layers.arguments import CHANNELS_LAST, LayerArguments
from estimand.core.errors import ConfigError

v1 = tf.compat.v1
_UPDATE_OPS = v1.GraphKeys.UPDATE_OPS


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
    arguments = LayerArguments(
        activation_fn,
        variables_collections=variables_collections,
        outputs_collections=outputs_collections,
    )
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
            axis=-1 if data_format in CHANNELS_LAST else 1,
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
        arguments.own(layer.variables)
        return arguments.activated(outputs, here)


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
def layer_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    activation_fn: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    begin_norm_axis: int = 1,
    begin_params_axis: int = -1,
    scope: Any = None,
) -> tf.Tensor:
    """Normalizes each example; variables `LayerNorm/beta` and `LayerNorm/gamma`."""
    layer = LayerArguments(
        activation_fn,
        reuse=reuse,
        variables_collections=variables_collections,
        outputs_collections=outputs_collections,
        trainable=trainable,
        scope=scope,
    )
    inputs = tf.convert_to_tensor(inputs)
    with layer.opened("LayerNorm", inputs) as here:
        beta, gamma = _beta_and_gamma(
            layer, inputs, inputs.shape[begin_params_axis:], center, scale
        )
        axes = list(range(begin_norm_axis % inputs.shape.rank, inputs.shape.rank))
        mean, variance = tf.nn.moments(inputs, axes, keepdims=True)
        epsilon = 1e-3 if inputs.dtype == tf.float16 else 1e-12
        outputs = tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, epsilon)
        outputs.set_shape(inputs.shape)
        return layer.activated(outputs, here)


@add_arg_scope
def group_norm(
    inputs: Any,
    groups: int = 32,
    channels_axis: int = -1,
    reduction_axes: Sequence[int] = (-3, -2),
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1e-6,
    activation_fn: Any = None,
    param_initializers: dict[str, Any] | None = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
    mean_close_to_zero: bool = False,
) -> tf.Tensor:
    """Normalizes groups of channels of each example; variables `GroupNorm/beta` and `gamma`."""
    del mean_close_to_zero  # how the variance is computed, not what it is
    layer = LayerArguments(
        activation_fn,
        reuse=reuse,
        variables_collections=variables_collections,
        outputs_collections=outputs_collections,
        trainable=trainable,
        scope=scope,
    )
    inputs = tf.convert_to_tensor(inputs)
    rank, sizes = inputs.shape.rank, inputs.shape.as_list()
    axis = channels_axis % rank
    over = [axis % rank for axis in reduction_axes]
    channels = sizes[axis]
    if axis in over:
        raise ConfigError(f"reduction_axes {reduction_axes} has channels_axis {channels_axis}.")
    if groups > channels or channels % groups:
        raise ConfigError(f"{channels} channels cannot be put into {groups} groups of one size.")
    with layer.opened("GroupNorm", inputs) as here:
        beta, gamma = _beta_and_gamma(layer, inputs, [channels], center, scale, param_initializers)
        shape = [tf.shape(inputs)[i] if size is None else size for i, size in enumerate(sizes)]
        shape[axis : axis + 1] = [groups, channels // groups]
        grouped = tf.reshape(inputs, shape)
        over = [other + 1 if other > axis else other for other in over] + [axis + 1]
        mean, variance = tf.nn.moments(grouped, over, keepdims=True)
        normal = tf.reshape((grouped - mean) * tf.math.rsqrt(variance + epsilon), tf.shape(inputs))
        broadcast = [channels if i == axis else 1 for i in range(rank)]
        if gamma is not None:
            normal *= tf.reshape(gamma, broadcast)
        if beta is not None:
            normal += tf.reshape(beta, broadcast)
        normal.set_shape(inputs.shape)
        return layer.activated(normal, here)


@add_arg_scope
def instance_norm(
    inputs: Any,
    center: bool = True,
    scale: bool = True,
    epsilon: float = 1e-6,
    activation_fn: Any = None,
    param_initializers: dict[str, Any] | None = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
    scope: Any = None,
) -> tf.Tensor:
    """Normalizes each channel of each example; variables `InstanceNorm/beta` and `gamma`."""
    inputs = tf.convert_to_tensor(inputs)
    rank = inputs.shape.rank
    axis = rank - 1 if data_format in CHANNELS_LAST else 1
    with v1.variable_scope(scope, "InstanceNorm", [inputs], reuse=reuse) as here:
        return group_norm(
            inputs,
            groups=inputs.shape.as_list()[axis],
            channels_axis=axis,
            reduction_axes=[i for i in range(1, rank) if i != axis],
            center=center,
            scale=scale,
            epsilon=epsilon,
            activation_fn=activation_fn,
            param_initializers=param_initializers,
            variables_collections=variables_collections,
            outputs_collections=outputs_collections,
            trainable=trainable,
            scope=here,
        )


def _beta_and_gamma(
    layer: LayerArguments,
    inputs: Any,
    shape: Any,
    center: bool,
    scale: bool,
    initializers: dict[str, Any] | None = None,
) -> tuple[Any, Any]:
    given = initializers or {}
    beta = gamma = None
    if center:
        zeros = given.get("beta", v1.zeros_initializer())
        beta = layer.variable("beta", shape, inputs.dtype, zeros, None)
    if scale:
        ones = given.get("gamma", v1.ones_initializer())
        gamma = layer.variable("gamma", shape, inputs.dtype, ones, None)
    return beta, gamma


def unit_norm(inputs: Any, dim: int, epsilon: float = 1e-7, scope: Any = None) -> tf.Tensor:
    """Vectors along a dimension, of length one."""
    with v1.name_scope(scope, "UnitNorm", [inputs]):
        length = tf.sqrt(tf.reduce_sum(tf.square(inputs), dim, keepdims=True) + epsilon)
        return inputs / length
