"""`tf.contrib.layers`: initializers, regularizers and the layers that Estimator code used most."""

from __future__ import annotations

import functools
import math
import numbers
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from estimand.compat.v1 import layers
from estimand.compat.v1.contrib_modules.arg_scope import add_arg_scope
from estimand.core.errors import ConfigError

v1 = tf.compat.v1
Regularizer = Callable[[Any], Any]


# Initializers


def xavier_initializer(
    uniform: bool = True, seed: int | None = None, dtype: Any = tf.float32
) -> Callable[..., tf.Tensor]:
    """Glorot's: the same spread of activations and gradients in all layers."""
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)


xavier_initializer_conv2d = xavier_initializer


def variance_scaling_initializer(
    factor: float = 2.0,
    mode: str = "FAN_IN",
    uniform: bool = False,
    seed: int | None = None,
    dtype: Any = tf.float32,
) -> Callable[..., tf.Tensor]:
    """Random numbers with a variance of `factor` divided by the fan."""
    if mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
        raise ConfigError(f"Unknown mode {mode} [FAN_IN, FAN_OUT, FAN_AVG]")
    if not tf.as_dtype(dtype).is_floating:
        raise ConfigError(f"Cannot create initializer for non-floating point type: {dtype}.")

    def initialize(shape: Any, dtype: Any = dtype, partition_info: Any = None) -> tf.Tensor:
        del partition_info
        spread = factor / max(1.0, _fan([int(size) for size in shape], mode))
        if uniform:
            limit = math.sqrt(3.0 * spread)
            return v1.random_uniform(shape, -limit, limit, dtype, seed=seed)
        # 1.3 makes up for what the truncation takes from the variance.
        return v1.truncated_normal(shape, 0.0, math.sqrt(1.3 * spread), dtype, seed=seed)

    return initialize


def _fan(shape: list[int], mode: str) -> float:
    area = math.prod(shape[:-2])
    fan_in = float(shape[-2] if len(shape) > 1 else (shape or [1])[-1]) * area
    fan_out = float((shape or [1])[-1]) * area
    return {"FAN_IN": fan_in, "FAN_OUT": fan_out, "FAN_AVG": (fan_in + fan_out) / 2.0}[mode]


# Regularizers


def l1_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """`scale` times the sum of absolute values.

    >>> float(l1_regularizer(0.1)(tf.constant([1.0, -2.0])))
    0.30000001192092896
    """
    return _scaled(scale, scope or "l1_regularizer", lambda w: tf.reduce_sum(tf.abs(w)))


def l2_regularizer(scale: float, scope: str | None = None) -> Regularizer:
    """`scale` times half the sum of squares.

    >>> float(l2_regularizer(0.1)(tf.constant([1.0, -2.0])))
    0.25
    """
    return _scaled(scale, scope or "l2_regularizer", tf.nn.l2_loss)


def l1_l2_regularizer(
    scale_l1: float = 1.0, scale_l2: float = 1.0, scope: str | None = None
) -> Regularizer:
    """Both."""
    scope = scope or "l1_l2_regularizer"
    return sum_regularizer([l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope)


def sum_regularizer(
    regularizer_list: Iterable[Regularizer | None], scope: str | None = None
) -> Regularizer | Any:
    """The sum of several; None if there is none."""
    chosen = [regularizer for regularizer in regularizer_list if regularizer is not None]
    if not chosen:
        return None

    def penalty(weights: Any) -> Any:
        with tf.name_scope(scope or "sum_regularizer"):
            penalties = [
                value for regularizer in chosen if (value := regularizer(weights)) is not None
            ]
            return tf.add_n(penalties) if penalties else None

    return penalty


def apply_regularization(regularizer: Regularizer, weights_list: Any = None) -> tf.Tensor:
    """The penalty of all weights (those in the collection WEIGHTS by default), also collected."""
    weights = v1.get_collection(v1.GraphKeys.WEIGHTS) if weights_list is None else weights_list
    penalties = [value for w in weights if (value := regularizer(w)) is not None]
    total = tf.add_n(penalties) if penalties else tf.constant(0.0)
    v1.add_to_collection(v1.GraphKeys.REGULARIZATION_LOSSES, total)
    return total


def _scaled(scale: Any, scope: str, measure: Callable[[Any], Any]) -> Regularizer:
    if isinstance(scale, numbers.Integral):
        raise ConfigError(f"scale cannot be an integer: {scale}. Write {float(scale)}.")
    if isinstance(scale, numbers.Real) and scale < 0.0:
        raise ConfigError(f"Setting a scale less than 0 on a regularizer: {scale:g}")
    if isinstance(scale, numbers.Real) and scale == 0.0:
        return lambda weights: None

    def penalty(weights: Any) -> Any:
        with tf.name_scope(scope):
            return tf.multiply(tf.cast(scale, weights.dtype.base_dtype), measure(weights))

    return penalty


# Layers


@add_arg_scope
def fully_connected(
    inputs: Any,
    num_outputs: int,
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
    """A dense layer; its variables are `fully_connected/weights` and `fully_connected/biases`."""
    del variables_collections, outputs_collections
    inputs = tf.convert_to_tensor(inputs)
    with v1.variable_scope(scope, "fully_connected", [inputs], reuse=reuse):
        weights = v1.get_variable(
            "weights",
            [tf.compat.dimension_value(inputs.shape[-1]), num_outputs],
            inputs.dtype,
            weights_initializer or xavier_initializer(),
            weights_regularizer,
            trainable,
        )
        outputs = tf.tensordot(inputs, weights, 1)
        if normalizer_fn is not None:
            outputs = normalizer_fn(outputs, **(normalizer_params or {}))
        elif biases_initializer is not None:
            biases = v1.get_variable(
                "biases",
                [num_outputs],
                inputs.dtype,
                biases_initializer,
                biases_regularizer,
                trainable,
            )
            outputs = tf.nn.bias_add(outputs, biases)
        return outputs if activation_fn is None else activation_fn(outputs)


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
    del variables_collections, outputs_collections
    inputs = tf.convert_to_tensor(inputs)
    with v1.variable_scope(scope, "LayerNorm", [inputs], reuse=reuse):
        shape = inputs.shape[begin_params_axis:]
        make = functools.partial(
            v1.get_variable, shape=shape, dtype=inputs.dtype, trainable=trainable
        )
        beta = make("beta", initializer=v1.zeros_initializer()) if center else None
        gamma = make("gamma", initializer=v1.ones_initializer()) if scale else None
        axes = list(range(begin_norm_axis % inputs.shape.rank, inputs.shape.rank))
        mean, variance = tf.nn.moments(inputs, axes, keepdims=True)
        epsilon = 1e-3 if inputs.dtype == tf.float16 else 1e-12
        outputs = tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, epsilon)
        outputs.set_shape(inputs.shape)
        return outputs if activation_fn is None else activation_fn(outputs)


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
    del outputs_collections
    return layers.dropout(inputs, 1 - keep_prob, noise_shape, seed, is_training, scope)


@add_arg_scope
def flatten(inputs: Any, outputs_collections: Any = None, scope: str | None = None) -> tf.Tensor:
    """All but the first dimension as one."""
    del outputs_collections
    return layers.flatten(inputs, name=scope)


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
    del outputs_collections
    labels = tf.cast(labels, tf.int64)
    return tf.one_hot(labels, num_classes, on_value, off_value, name=scope)


def embed_sequence(
    ids: Any,
    vocab_size: int | None = None,
    embed_dim: int | None = None,
    unique: bool = False,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: Any = None,
) -> tf.Tensor:
    """Rows of a table for sequences of ids; its variable is `EmbedSequence/embeddings`."""
    del unique  # the gradient of a lookup is sparse either way
    if not (reuse or (vocab_size and embed_dim)):
        raise ConfigError(
            f"Must specify vocab size and embedding dimension when not reusing. Got "
            f"vocab_size={vocab_size} and embed_dim={embed_dim}"
        )
    with v1.variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        shape = [vocab_size, embed_dim] if vocab_size and embed_dim else None
        table = v1.get_variable("embeddings", shape, None, initializer, regularizer, trainable)
        return tf.nn.embedding_lookup(table, ids)
