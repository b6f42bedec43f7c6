"""Batch normalization with moving averages that the caller must let run (UPDATE_OPS)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimand.compat.v1.layers.arguments import choose, static_truth
from estimand.compat.v1.layers.base import Layer, run_layer
from estimand.compat.v1.layers.errors import LayerError, LayerTypeError
from estimand.compat.v1.layers.input_spec import InputSpec
from estimand.compat.v1.layers.variables import whole

v1 = tf.compat.v1

_ZEROS = v1.zeros_initializer()
_ONES = v1.ones_initializer()

# By the rank of the inputs and the normalized axis: what the fused kernel calls the layout.
_FUSED_LAYOUTS = {(4, 1): "NCHW", (4, 3): "NHWC", (5, 1): "NCDHW", (5, 4): "NDHWC"}
_HALF_PRECISION = (tf.float16, tf.bfloat16)


class BatchNormalization(Layer):
    """Brings each channel to mean 0 and variance 1 of the batch, then scales and shifts it.

    Variables: `gamma`, `beta` (trainable), `moving_mean`, `moving_variance`. The moving averages,
    which serve when not training, move only when the operations in UPDATE_OPS run.

    Example:

        normalized = layers.BatchNormalization()(inputs, training=True)
        updates = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS)
        with tf.control_dependencies(updates):
            train_op = optimizer.minimize(loss)

    Args:
        axis: the axis (or axes) to normalize separately, usually that of the channels.
        momentum: how much of a moving average stays at each update.
        epsilon: added to the variance.
        center, scale: whether there is a `beta`, a `gamma`.
        fused: whether to use the fused kernel where there is one; by default, yes.
            It corrects the moving variance for the size of the sample.
        renorm, virtual_batch_size, adjustment: not supported, an error if given.
    """

    def __init__(
        self,
        axis: Any = -1,
        momentum: float = 0.99,
        epsilon: float = 1e-3,
        center: bool = True,
        scale: bool = True,
        beta_initializer: Any = _ZEROS,
        gamma_initializer: Any = _ONES,
        moving_mean_initializer: Any = _ZEROS,
        moving_variance_initializer: Any = _ONES,
        beta_regularizer: Any = None,
        gamma_regularizer: Any = None,
        beta_constraint: Any = None,
        gamma_constraint: Any = None,
        renorm: bool = False,
        renorm_clipping: Any = None,
        renorm_momentum: float = 0.99,
        fused: bool | None = None,
        trainable: bool = True,
        virtual_batch_size: int | None = None,
        adjustment: Any = None,
        name: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(trainable=trainable, name=name, **kwargs)
        _refuse("renorm", renorm or None)
        _refuse("virtual_batch_size", virtual_batch_size)
        _refuse("adjustment", adjustment)
        self.axis = _listed(axis)
        self.momentum = momentum
        self.epsilon = epsilon
        self.center = center
        self.scale = scale
        self.beta_initializer = beta_initializer
        self.gamma_initializer = gamma_initializer
        self.moving_mean_initializer = moving_mean_initializer
        self.moving_variance_initializer = moving_variance_initializer
        self.beta_regularizer = beta_regularizer
        self.gamma_regularizer = gamma_regularizer
        self.beta_constraint = beta_constraint
        self.gamma_constraint = gamma_constraint
        self.fused = fused

    # --- variables

    def build(self, input_shape: Any) -> None:
        if not self.dtype.is_floating:
            raise LayerTypeError(
                "BatchNormalization needs inputs of a floating-point dtype. "
                f"Received: dtype={self.dtype.name}. "
                "Convert the inputs first: tf.cast(inputs, tf.float32)."
            )
        self._rank, sizes = self._normalized_axes(input_shape)
        self.input_spec = InputSpec(ndim=self._rank, axes=sizes)
        self._layout = self._fused_layout()
        self.fused = self._layout is not None
        self._add_scale_and_shift(self._parameter_shape(sizes))
        self._add_moving_averages(self._parameter_shape(sizes))

    def _normalized_axes(self, input_shape: Any) -> tuple[int, dict[int, int]]:
        input_shape = tf.TensorShape(input_shape)
        rank = input_shape.rank
        if rank is None:
            raise LayerError(f"Input has undefined rank. Received: input_shape={input_shape}.")
        axes = [axis + rank if axis < 0 else axis for axis in self.axis]
        if any(not 0 <= axis < rank for axis in axes):
            raise LayerError(
                "Invalid value for `axis` argument. Expected 0 <= axis < inputs.rank "
                f"(with inputs.rank={rank}). Received: axis={tuple(self.axis)}"
            )
        if len(set(axes)) != len(axes):
            raise LayerError(f"Duplicate axis: {tuple(axes)}")
        self.axis = axes
        if any(input_shape[axis] is None for axis in axes):
            raise LayerError(
                "Input has undefined `axis` dimension. Received input with shape "
                f"{input_shape} and axis={tuple(axes)}"
            )
        return rank, {axis: input_shape[axis] for axis in axes}

    def _fused_layout(self) -> str | None:
        """The layout for the fused kernel, or `None` where it must or shall not be used."""
        unwanted = self.fused is not None and not self.fused
        if unwanted or len(self.axis) != 1 or self.dtype == tf.float64:
            return None
        return _FUSED_LAYOUTS.get((self._rank, self.axis[0]))

    def _parameter_shape(self, sizes: dict[int, int]) -> list[int]:
        """One axis: a vector. Several: all dimensions, those not normalized of size 1."""
        if len(sizes) == 1:
            return list(sizes.values())
        return [sizes.get(axis, 1) for axis in range(self._rank)]

    @property
    def _parameter_dtype(self) -> Any:
        return tf.float32 if self.dtype in _HALF_PRECISION else self.dtype

    def _add_scale_and_shift(self, shape: list[int]) -> None:
        self.gamma = self.beta = None
        if self.scale:
            self.gamma = self.add_weight(
                "gamma",
                shape=shape,
                dtype=self._parameter_dtype,
                initializer=self.gamma_initializer,
                regularizer=self.gamma_regularizer,
                constraint=self.gamma_constraint,
            )
        if self.center:
            self.beta = self.add_weight(
                "beta",
                shape=shape,
                dtype=self._parameter_dtype,
                initializer=self.beta_initializer,
                regularizer=self.beta_regularizer,
                constraint=self.beta_constraint,
            )

    def _add_moving_averages(self, shape: list[int]) -> None:
        """Each replica of a distributed run keeps its own; a reader gets their mean."""

        def moving(name: str, initializer: Any) -> Any:
            return self.add_weight(
                name,
                shape=shape,
                dtype=self._parameter_dtype,
                initializer=initializer,
                trainable=False,
                synchronization=tf.VariableSynchronization.ON_READ,
                aggregation=v1.VariableAggregation.MEAN,
            )

        # They are assigned as a whole, so a partitioner of an enclosing scope is not for them.
        partitioner = self._scope.partitioner
        self._scope.set_partitioner(None)
        try:
            self.moving_mean = moving("moving_mean", self.moving_mean_initializer)
            self.moving_variance = moving("moving_variance", self.moving_variance_initializer)
        finally:
            self._scope.set_partitioner(partitioner)

    # --- computing

    def call(self, inputs: Any, training: Any = False) -> Any:
        if self.fused:
            return self._fused(inputs, training)
        if inputs.dtype in _HALF_PRECISION:
            # Sums over a batch overflow half precision.
            return tf.cast(self._plain(tf.cast(inputs, tf.float32), training), inputs.dtype)
        return self._plain(inputs, training)

    def _fused(self, inputs: Any, training: Any) -> Any:
        shape = [inputs.shape[self.axis[0]]]
        beta = tf.zeros(shape, self._parameter_dtype) if self.beta is None else whole(self.beta)
        gamma = tf.ones(shape, self._parameter_dtype) if self.gamma is None else whole(self.gamma)

        def normalize(is_training: bool) -> Any:
            return v1.nn.fused_batch_norm(
                inputs,
                gamma,
                beta,
                mean=self.moving_mean,
                variance=self.moving_variance,
                epsilon=self.epsilon,
                is_training=is_training,
                data_format=self._layout,
            )

        outputs, mean, variance = choose(
            training, lambda: normalize(True), lambda: normalize(False)
        )
        if static_truth(training) is not False:
            # Known only when it runs: then a momentum of 1 lets the averages stand still.
            momentum = choose(
                training,
                lambda: tf.constant(self.momentum, self._parameter_dtype),
                lambda: tf.constant(1.0, self._parameter_dtype),
            )
            self.add_update(_moved(self.moving_mean, mean, momentum), inputs=inputs)
            self.add_update(_moved(self.moving_variance, variance, momentum), inputs=inputs)
        return outputs

    def _plain(self, inputs: Any, training: Any) -> Any:
        mean, variance = self.moving_mean, self.moving_variance
        if static_truth(training) is not False:
            mean, variance = self._batch_moments(inputs, training)
        return tf.nn.batch_normalization(
            inputs,
            *(self._broadcast(moment) for moment in (mean, variance)),
            offset=self._broadcast(self.beta),
            scale=self._broadcast(self.gamma),
            variance_epsilon=self.epsilon,
        )

    def _batch_moments(self, inputs: Any, training: Any) -> tuple[Any, Any]:
        """The moments of the batch (of the past when not training), and their updates added."""
        others = [axis for axis in range(self._rank) if axis not in self.axis]
        batch_mean, batch_variance = tf.nn.moments(inputs, others, keepdims=len(self.axis) > 1)
        mean = choose(training, lambda: batch_mean, lambda: tf.identity(self.moving_mean))
        variance = choose(
            training, lambda: batch_variance, lambda: tf.identity(self.moving_variance)
        )
        for average, moment in ((self.moving_mean, mean), (self.moving_variance, variance)):
            self.add_update(self._moved_if(training, average, moment), inputs=inputs)
        return mean, variance

    def _moved_if(self, training: Any, average: Any, moment: Any) -> Any:
        if static_truth(training):
            return _moved(average, moment, self.momentum)
        return choose(
            training,
            lambda: tf.identity(_moved(average, moment, self.momentum)),
            lambda: tf.identity(average),
        )

    def _broadcast(self, parameter: Any) -> Any:
        """A vector over an axis that is not the last, shaped so that it lines up with it."""
        if parameter is None:
            return None
        parameter = whole(parameter)
        if len(self.axis) > 1 or self.axis[0] == self._rank - 1:
            return parameter
        return tf.reshape(parameter, [-1 if axis in self.axis else 1 for axis in range(self._rank)])

    def compute_output_shape(self, input_shape: Any) -> tf.TensorShape:
        return tf.TensorShape(input_shape)


def _moved(average: Any, value: Any, momentum: Any) -> Any:
    """`average` moved towards `value`; what is returned stands for having been moved."""
    with tf.name_scope("AssignMovingAvg"):
        step = (average - tf.cast(value, average.dtype)) * (1.0 - momentum)
        return average.assign_sub(step)


def _refuse(argument: str, value: Any) -> None:
    if value is not None:
        raise LayerError(
            f"batch_normalization does not support `{argument}` (received {value!r}): "
            "leave it out, or use keras.layers.BatchNormalization."
        )


def _listed(axis: Any) -> list[int]:
    if isinstance(axis, int):
        return [axis]
    if isinstance(axis, Sequence) and axis and all(isinstance(item, int) for item in axis):
        return list(axis)
    raise LayerTypeError(
        f"Expected an int or a list/tuple of ints for the argument 'axis', but received: {axis!r}"
    )


def batch_normalization(
    inputs: Any,
    axis: Any = -1,
    momentum: float = 0.99,
    epsilon: float = 1e-3,
    center: bool = True,
    scale: bool = True,
    beta_initializer: Any = _ZEROS,
    gamma_initializer: Any = _ONES,
    moving_mean_initializer: Any = _ZEROS,
    moving_variance_initializer: Any = _ONES,
    beta_regularizer: Any = None,
    gamma_regularizer: Any = None,
    beta_constraint: Any = None,
    gamma_constraint: Any = None,
    training: Any = False,
    trainable: bool = True,
    name: Any = None,
    reuse: Any = None,
    renorm: bool = False,
    renorm_clipping: Any = None,
    renorm_momentum: float = 0.99,
    fused: bool | None = None,
    virtual_batch_size: int | None = None,
    adjustment: Any = None,
) -> Any:
    """One call of a `BatchNormalization` layer; `training` is a bool or a scalar tensor.

    The moving averages move only when the operations in UPDATE_OPS run.

    >>> batch_normalization(tf.constant([[1.0], [3.0]]), training=True, epsilon=1e-9).numpy()
    array([[-1.],
           [ 1.]], dtype=float32)
    """
    return run_layer(BatchNormalization, **locals())
