"""`tf.contrib.layers`: dense layers, and how layers are put on each other."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from estimand.compat.v1 import layers
from estimand.compat.v1.contrib_modules.framework.arg_scope import add_arg_scope
from estimand.compat.v1.contrib_modules.layers import utils
from estimand.compat.v1.contrib_modules.layers.arguments import LayerArguments
from estimand.core.errors import ConfigError

v1 = tf.compat.v1


@add_arg_scope
def fully_connected(inputs: Any, num_outputs: int, *args: Any, **kwargs: Any) -> tf.Tensor:
    """A dense layer; its variables are `fully_connected/weights` and `fully_connected/biases`.

    Args:
        inputs: at least two dimensions; the last one is connected.
        num_outputs: the size of the result.
        *args: see `LayerArguments`.
        **kwargs: the same by name.
    """
    layer = LayerArguments(*args, **kwargs)
    inputs = tf.convert_to_tensor(inputs)
    with layer.opened("fully_connected", inputs) as here:
        depth = utils.last_dimension(inputs.shape, min_rank=2)
        weights = layer.weights([depth, int(num_outputs)], inputs.dtype)
        return layer.finished(tf.tensordot(inputs, weights, 1), here)


def stack(inputs: Any, layer: Callable[..., Any], stack_args: Iterable[Any], **kwargs: Any) -> Any:
    """A layer on a layer, one for each of `stack_args`; scopes are `stack/layer_1`, `_2`, ..."""
    scope = kwargs.pop("scope", None)
    outputs = inputs
    with v1.variable_scope(scope, "Stack", [inputs]):
        name = scope or getattr(layer, "__name__", "layer")
        for number, given in enumerate(stack_args, start=1):
            args = given if isinstance(given, (list, tuple)) else [given]
            outputs = layer(outputs, *args, scope=f"{name}_{number}", **kwargs)
    return outputs


def repeat(
    inputs: Any, repetitions: int, layer: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """The same layer again and again; scopes are `conv1/conv1_1`, `conv1/conv1_2`, ..."""
    scope = kwargs.pop("scope", None)
    outputs = inputs
    with v1.variable_scope(scope, "Repeat", [inputs]):
        name = scope or getattr(layer, "__name__", "repeat")
        for number in range(1, repetitions + 1):
            outputs = layer(outputs, *args, scope=f"{name}_{number}", **kwargs)
    return outputs


def softmax(logits: Any, scope: str | None = None) -> tf.Tensor:
    """Of the last dimension."""
    return tf.nn.softmax(logits, name=scope)


linear = functools.partial(fully_connected, activation_fn=None)
relu = functools.partial(fully_connected, activation_fn=tf.nn.relu)
relu6 = functools.partial(fully_connected, activation_fn=tf.nn.relu6)
elu = functools.partial(fully_connected, activation_fn=tf.nn.elu)


@add_arg_scope
def bias_add(
    inputs: Any,
    activation_fn: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    reuse: Any = None,
    variables_collections: Any = None,
    outputs_collections: Any = None,
    trainable: bool = True,
    data_format: str | None = "NHWC",
    scope: Any = None,
) -> tf.Tensor:
    """Adds `BiasAdd/biases`."""
    layer = LayerArguments(
        activation_fn,
        biases_initializer=initializer or v1.zeros_initializer(),
        biases_regularizer=regularizer,
        reuse=reuse,
        variables_collections=variables_collections,
        outputs_collections=outputs_collections,
        trainable=trainable,
        scope=scope,
    )
    inputs = tf.convert_to_tensor(inputs)
    with layer.opened("BiasAdd", inputs) as here:
        return layer.finished(inputs, here, data_format)


@add_arg_scope
def dropout(
    inputs: Any,
    keep_prob: float = 0.5,
    noise_shape: Any = None,
    is_training: Any = True,
    outputs_collections: Any = None,
    scope: str | None = None,
    seed: int | None = None,
) -> tf.Tensor:
    """Dropout; `keep_prob` is the share that is kept."""
    with v1.variable_scope(scope, "Dropout", [inputs]) as here:
        kept = layers.dropout(inputs, 1 - keep_prob, noise_shape, seed, is_training)
        return utils.collect_named_outputs(outputs_collections, here.name, kept)


@add_arg_scope
def flatten(inputs: Any, outputs_collections: Any = None, scope: str | None = None) -> tf.Tensor:
    """All but the first dimension as one."""
    with v1.name_scope(scope, "Flatten", [inputs]) as here:
        flat = layers.flatten(inputs)
        return utils.collect_named_outputs(outputs_collections, here, flat)


@add_arg_scope
def one_hot_encoding(
    labels: Any,
    num_classes: int,
    on_value: float = 1.0,
    off_value: float = 0.0,
    outputs_collections: Any = None,
    scope: str | None = None,
) -> tf.Tensor:
    """Class numbers as rows with a single one."""
    with v1.name_scope(scope, "OneHotEncoding", [labels, num_classes]) as here:
        rows = tf.one_hot(tf.cast(labels, tf.int64), num_classes, on_value, off_value)
        return utils.collect_named_outputs(outputs_collections, here, rows)


@add_arg_scope
def maxout(
    inputs: Any, num_units: int, axis: int = -1, outputs_collections: Any = None, scope: Any = None
) -> tf.Tensor:
    """The largest of each group of channels; `num_units` is how many groups there are."""
    with v1.name_scope(scope, "MaxOut", [inputs]) as here:
        inputs = tf.convert_to_tensor(inputs)
        sizes, axis = inputs.shape.as_list(), axis % inputs.shape.rank
        channels = sizes[axis]
        if channels % num_units:
            raise ConfigError(
                f"number of features({channels}) is not a multiple of num_units({num_units})"
            )
        dynamic = [tf.shape(inputs)[i] if size is None else size for i, size in enumerate(sizes)]
        dynamic[axis : axis + 1] = [num_units, channels // num_units]
        largest = tf.reduce_max(tf.reshape(inputs, dynamic), axis + 1)
        largest.set_shape([*sizes[:axis], num_units, *sizes[axis + 1 :]])
        return utils.collect_named_outputs(outputs_collections, here, largest)


def dense_to_sparse(
    tensor: Any, eos_token: Any = 0, outputs_collections: Any = None, scope: Any = None
) -> tf.SparseTensor:
    """What is not `eos_token`, as a sparse tensor."""
    with v1.name_scope(scope, "dense_to_sparse", [tensor]):
        tensor = tf.convert_to_tensor(tensor)
        places = tf.where(tf.not_equal(tensor, tf.cast(eos_token, tensor.dtype)))
        shape = tf.shape(tensor, out_type=tf.int64)
        sparse = tf.SparseTensor(places, tf.gather_nd(tensor, places), shape)
        v1.add_to_collections(outputs_collections or (), sparse)
        return sparse


def scale_gradient(inputs: Any, gradient_multiplier: Any) -> tf.Tensor:
    """The inputs, through which gradients come that many times as large."""

    @tf.custom_gradient
    def scaled(x: Any) -> Any:
        return tf.identity(x), lambda dy: dy * gradient_multiplier

    return scaled(inputs)
