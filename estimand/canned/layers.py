"""The three layers that canned models are made of, on v1 variables under upstream's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

_v1 = tf.compat.v1

# That of tf.contrib.layers: 0.99, the default elsewhere, was found to be too nervous.
_BATCH_NORM_MOMENTUM = 0.999
_BATCH_NORM_EPSILON = 0.001


def dense(
    inputs: tf.Tensor, units: int, activation: Callable[[tf.Tensor], tf.Tensor] | None = None
) -> tf.Tensor:
    """A fully connected layer; makes `kernel` and `bias` in the current variable scope."""
    kernel = _v1.get_variable(
        "kernel", [inputs.shape[-1], units], inputs.dtype, _v1.glorot_uniform_initializer()
    )
    bias = _v1.get_variable("bias", [units], inputs.dtype, _v1.zeros_initializer())
    outputs = tf.nn.bias_add(tf.matmul(inputs, kernel), bias)
    return outputs if activation is None else activation(outputs)


def batch_norm(inputs: tf.Tensor, training: bool) -> tuple[tf.Tensor, list[Any]]:
    """Batch normalization in the current variable scope, and its updates in training."""
    size, dtype = [inputs.shape[-1]], inputs.dtype
    gamma = _v1.get_variable("gamma", size, dtype, _v1.ones_initializer())
    beta = _v1.get_variable("beta", size, dtype, _v1.zeros_initializer())
    mean = _moving_average("moving_mean", size, dtype, _v1.zeros_initializer())
    variance = _moving_average("moving_variance", size, dtype, _v1.ones_initializer())
    if not training:
        outputs = _normalized(inputs, mean, variance, beta, gamma)
        return outputs, []
    batch_mean, batch_variance = tf.nn.moments(inputs, [0])
    outputs = _normalized(inputs, batch_mean, batch_variance, beta, gamma)
    moved = [_move(mean, batch_mean), _move(variance, batch_variance)]
    if not tf.executing_eagerly():
        # For model functions around this one that make a training step of their own.
        for update in moved:
            _v1.add_to_collection(_v1.GraphKeys.UPDATE_OPS, update)
    return outputs, moved


def _moving_average(name: str, size: list[int], dtype: tf.DType, initializer: Any) -> tf.Variable:
    """Assigned as a whole, so a partitioner of an enclosing scope is not for it."""
    scope = _v1.get_variable_scope()
    partitioner = scope.partitioner
    scope.set_partitioner(None)
    try:
        return _v1.get_variable(name, size, dtype, initializer, trainable=False)
    finally:
        scope.set_partitioner(partitioner)


def _normalized(
    inputs: tf.Tensor, mean: Any, variance: Any, beta: tf.Variable, gamma: tf.Variable
) -> tf.Tensor:
    return tf.nn.batch_normalization(inputs, mean, variance, beta, gamma, _BATCH_NORM_EPSILON)


def _move(average: tf.Variable, value: tf.Tensor) -> Any:
    step = (average.read_value() - value) * tf.cast(1.0 - _BATCH_NORM_MOMENTUM, value.dtype)
    return average.assign_sub(step, read_value=False)


def activation_function(given: Any) -> Callable[[tf.Tensor], tf.Tensor] | None:
    """A function as it is; a name as Keras knows it."""
    if not isinstance(given, str):
        return given
    import keras

    return keras.activations.get(given)


def summarise(value: tf.Tensor, tag: str) -> None:
    """How many values of a layer are zero, and how they are distributed."""
    _v1.summary.scalar(f"{tag}/fraction_of_zero_values", tf.math.zero_fraction(value))
    _v1.summary.histogram(f"{tag}/activation", value)
