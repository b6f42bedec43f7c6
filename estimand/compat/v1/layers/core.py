"""Dense, Dropout, Flatten."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from estimand.compat.v1.layers import identifiers
from estimand.compat.v1.layers.arguments import (
    CHANNELS_FIRST,
    choose,
    layout_name,
    positive_count,
)
from estimand.compat.v1.layers.base import Layer, run_layer
from estimand.compat.v1.layers.errors import LayerError, LayerTypeError
from estimand.compat.v1.layers.input_spec import InputSpec
from estimand.compat.v1.layers.variables import whole

_ZEROS = tf.compat.v1.zeros_initializer()


class Dense(Layer):
    """`activation(inputs · kernel + bias)` over the last dimension of the inputs.

    Variables: `kernel` of shape [size of the last dimension, units] and `bias` of shape [units].

    Example:

        hidden = layers.Dense(64, activation=tf.nn.relu)
        left, right = hidden(a), hidden(b)      # both use dense/kernel and dense/bias
    """

    def __init__(
        self,
        units: int,
        activation: Any = None,
        use_bias: bool = True,
        kernel_initializer: Any = None,
        bias_initializer: Any = _ZEROS,
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
            trainable=trainable, name=name, activity_regularizer=activity_regularizer, **kwargs
        )
        self.units = positive_count(units, "units")
        self.activation = identifiers.activation(activation)
        self.use_bias = use_bias
        self.kernel_initializer = kernel_initializer
        self.bias_initializer = bias_initializer
        self.kernel_regularizer = kernel_regularizer
        self.bias_regularizer = bias_regularizer
        self.kernel_constraint = kernel_constraint
        self.bias_constraint = bias_constraint
        self.input_spec = InputSpec(min_ndim=2)

    def build(self, input_shape: Any) -> None:
        if not (self.dtype.is_floating or self.dtype.is_complex):
            raise LayerTypeError(
                "A Dense layer can only be built with a floating-point dtype. "
                f"Received: dtype={self.dtype.name}. "
                "Convert the inputs first: tf.cast(inputs, tf.float32)."
            )
        size = self._last_dimension(tf.TensorShape(input_shape))
        self.input_spec = InputSpec(min_ndim=2, axes={-1: size})
        self.kernel = self.add_weight(
            "kernel",
            shape=[size, self.units],
            initializer=self.kernel_initializer,
            regularizer=self.kernel_regularizer,
            constraint=self.kernel_constraint,
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                "bias",
                shape=[self.units],
                initializer=self.bias_initializer,
                regularizer=self.bias_regularizer,
                constraint=self.bias_constraint,
            )

    def call(self, inputs: Any) -> Any:
        kernel = whole(self.kernel)
        if isinstance(inputs, tf.SparseTensor):
            outputs = tf.sparse.sparse_dense_matmul(inputs, kernel)
        elif inputs.shape.rank == 2:
            outputs = tf.matmul(inputs, kernel)
        else:
            outputs = tf.tensordot(inputs, kernel, [[inputs.shape.rank - 1], [0]])
            outputs.set_shape(self.compute_output_shape(inputs.shape))
        if self.use_bias:
            outputs = tf.nn.bias_add(outputs, whole(self.bias))
        return outputs if self.activation is None else self.activation(outputs)

    def compute_output_shape(self, input_shape: Any) -> tf.TensorShape:
        shape = tf.TensorShape(input_shape)
        self._last_dimension(shape)
        return shape[:-1].concatenate(self.units)

    @staticmethod
    def _last_dimension(shape: Any) -> int:
        size = shape[-1] if shape.rank is not None else None
        if size is None:
            raise LayerError(
                "The last dimension of the inputs to `Dense` should be defined. Found `None`. "
                f"Full input shape received: {shape}. "
                "Give the inputs a size before, e.g. tf.ensure_shape(inputs, [None, 10])."
            )
        return size


class Dropout(Layer):
    """While training, sets a share `rate` of the inputs to 0 and scales the rest by 1/(1-rate).

    Example:

        kept = layers.Dropout(0.4)(hidden, training=mode == est.ModeKeys.TRAIN)

    Args:
        rate: the share to drop, between 0 and 1; may be a tensor.
        noise_shape: shape of the mask, broadcast over the inputs; `None` entries are the inputs'.
        seed: of the mask.
    """

    def __init__(
        self,
        rate: Any = 0.5,
        noise_shape: Any = None,
        seed: int | None = None,
        name: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, **kwargs)
        if isinstance(rate, int | float) and not 0 <= rate <= 1:
            raise LayerError(
                f"Invalid value {rate} received for `rate`, expected a value between 0 and 1. "
                "It is the share to drop: rate = 1 - keep_prob."
            )
        self.rate = rate
        self.noise_shape = noise_shape
        self.seed = seed

    def call(self, inputs: Any, training: Any = False) -> Any:
        return choose(training, lambda: self._dropped(inputs), lambda: tf.identity(inputs))

    def _dropped(self, inputs: Any) -> Any:
        if isinstance(self.rate, int | float) and self.rate == 0:
            return tf.identity(inputs)
        noise_shape = self._full_noise_shape(inputs)
        return tf.nn.dropout(inputs, rate=self.rate, noise_shape=noise_shape, seed=self.seed)

    def _full_noise_shape(self, inputs: Any) -> Any:
        if self.noise_shape is None or tf.is_tensor(self.noise_shape):
            return self.noise_shape
        sizes = tf.shape(inputs)
        return tf.stack(
            [sizes[i] if size is None else size for i, size in enumerate(self.noise_shape)]
        )

    def compute_output_shape(self, input_shape: Any) -> tf.TensorShape:
        return tf.TensorShape(input_shape)


class Flatten(Layer):
    """Everything but the batch into one dimension.

    Example:

        layers.Flatten()(images)      # [None, 28, 28, 3] -> [None, 2352]

    Args:
        data_format: with `channels_first` the channels are first moved to the end, so that the
            same picture gives the same row in both layouts.
    """

    def __init__(self, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.data_format = layout_name(data_format)
        self.input_spec = InputSpec(min_ndim=1)

    def call(self, inputs: Any) -> Any:
        rank = inputs.shape.rank
        if rank == 1:
            return tf.expand_dims(inputs, 1)
        if self.data_format == CHANNELS_FIRST and rank is not None:
            inputs = tf.transpose(inputs, [0, *range(2, rank), 1])
        shape = self.compute_output_shape(inputs.shape)
        width = tf.compat.dimension_value(shape[1])
        if rank is not None and width is not None:
            outputs = tf.reshape(inputs, tf.constant([-1, width]))
        else:
            outputs = tf.reshape(inputs, [tf.shape(inputs)[0], -1])
        outputs.set_shape(shape)
        return outputs

    def compute_output_shape(self, input_shape: Any) -> tf.TensorShape:
        shape = tf.TensorShape(input_shape)
        if shape.rank is None:
            return tf.TensorShape([None, None])
        sizes = shape.as_list()[1:]
        return tf.TensorShape([shape[0], None if None in sizes else math.prod(sizes)])


def dense(
    inputs: Any,
    units: int,
    activation: Any = None,
    use_bias: bool = True,
    kernel_initializer: Any = None,
    bias_initializer: Any = _ZEROS,
    kernel_regularizer: Any = None,
    bias_regularizer: Any = None,
    activity_regularizer: Any = None,
    kernel_constraint: Any = None,
    bias_constraint: Any = None,
    trainable: bool = True,
    name: Any = None,
    reuse: Any = None,
) -> Any:
    """`activation(inputs · kernel + bias)`: one call of a `Dense` layer.

    >>> dense(tf.ones([4, 3]), 10, activation=tf.nn.relu, name="logits").shape
    TensorShape([4, 10])
    """
    return run_layer(Dense, **locals())


def dropout(
    inputs: Any,
    rate: Any = 0.5,
    noise_shape: Any = None,
    seed: int | None = None,
    training: Any = False,
    name: Any = None,
) -> Any:
    """One call of a `Dropout` layer; `training` is a bool or a scalar tensor.

    >>> kept = dropout(tf.ones([100]), rate=0.5, training=True)
    >>> sorted(set(kept.numpy().tolist()))
    [0.0, 2.0]
    """
    layer = Dropout(rate, noise_shape=noise_shape, seed=seed, name=name)
    return layer(inputs, training=training)


def flatten(inputs: Any, name: Any = None, data_format: str = "channels_last") -> Any:
    """Everything but the batch into one dimension: one call of a `Flatten` layer.

    >>> flatten(tf.ones([4, 28, 28, 3])).shape
    TensorShape([4, 2352])
    """
    return Flatten(data_format=data_format, name=name)(inputs)
