"""`tf.contrib.training` and `slim.learning`: the op of a step, and what is done to gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

from estimand.core.errors import ConfigError

v1 = tf.compat.v1
Gradients = Iterable[tuple[Any, Any]]
_OF_THE_GRAPH = 0  # None means that no step is counted


def create_train_op(
    total_loss: Any,
    optimizer: Any,
    global_step: Any = _OF_THE_GRAPH,
    update_ops: Iterable[Any] | None = None,
    variables_to_train: Any = None,
    transform_grads_fn: Callable[[list[tuple[Any, Any]]], Gradients] | None = None,
    summarize_gradients: bool = False,
    gate_gradients: int = v1.train.Optimizer.GATE_OP,
    aggregation_method: Any = None,
    colocate_gradients_with_ops: bool = False,
    check_numerics: bool = True,
) -> tf.Tensor:
    """The loss, which when it is computed has done a step: updates, gradients, variables."""
    if global_step is _OF_THE_GRAPH:
        global_step = v1.train.get_or_create_global_step()
    updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS) if update_ops is None else update_ops
    with tf.control_dependencies(list(updates)):
        total_loss = tf.identity(total_loss)
    gradients = optimizer.compute_gradients(
        total_loss,
        variables_to_train or v1.trainable_variables(),
        gate_gradients=gate_gradients,
        aggregation_method=aggregation_method,
        colocate_gradients_with_ops=colocate_gradients_with_ops,
    )
    if transform_grads_fn is not None:
        gradients = list(transform_grads_fn(gradients))
    if summarize_gradients:
        add_gradients_summaries(gradients)
    applied = optimizer.apply_gradients(gradients, global_step=global_step)
    if check_numerics:
        total_loss = tf.debugging.check_numerics(total_loss, "LossTensor is inf or nan")
    with tf.control_dependencies([applied]):
        train_op = tf.identity(total_loss, name="train_op")
    collected = v1.get_collection_ref(v1.GraphKeys.TRAIN_OP)
    if not any(train_op is known for known in collected):
        collected.append(train_op)
    return train_op


def create_slim_train_op(
    total_loss: Any,
    optimizer: Any,
    global_step: Any = _OF_THE_GRAPH,
    update_ops: Iterable[Any] | None = None,
    variables_to_train: Any = None,
    clip_gradient_norm: float = 0,
    summarize_gradients: bool = False,
    gate_gradients: int = v1.train.Optimizer.GATE_OP,
    aggregation_method: Any = None,
    colocate_gradients_with_ops: bool = False,
    gradient_multipliers: dict[Any, Any] | None = None,
    check_numerics: bool = True,
) -> tf.Tensor:
    """The same as slim has it: gradients are multiplied, and then clipped."""

    def transformed(gradients: Gradients) -> Gradients:
        if gradient_multipliers:
            gradients = multiply_gradients(gradients, gradient_multipliers)
        return (
            clip_gradient_norms(gradients, clip_gradient_norm) if clip_gradient_norm else gradients
        )

    return create_train_op(
        total_loss,
        optimizer,
        global_step,
        update_ops,
        variables_to_train,
        transformed,
        summarize_gradients,
        gate_gradients,
        aggregation_method,
        colocate_gradients_with_ops,
        check_numerics,
    )


def clip_gradient_norms(gradients_to_variables: Gradients, max_norm: float) -> list[Any]:
    """Each gradient by itself, so that it is not longer than this."""
    return [
        (_each_value(gradient, lambda g: tf.clip_by_norm(g, max_norm)), variable)
        for gradient, variable in gradients_to_variables
    ]


def clip_gradient_norms_fn(max_norm: float) -> Callable[[Gradients], list[Any]]:
    """The same, to be given to `create_train_op`."""
    return lambda gradients: clip_gradient_norms(gradients, max_norm)


def multiply_gradients(
    grads_and_vars: Gradients, gradient_multipliers: dict[Any, Any]
) -> list[Any]:
    """By the factors of some variables, which are known by themselves or by their names."""
    factors = {
        key.op.name if hasattr(key, "op") else key: value
        for key, value in gradient_multipliers.items()
    }
    multiplied = []
    for gradient, variable in grads_and_vars:
        factor = factors.get(variable.op.name)
        if factor is not None:
            if gradient is None:
                raise ConfigError(f"The variable {variable.op.name} has no gradient to multiply.")
            gradient = _times(gradient, factor)
        multiplied.append((gradient, variable))
    return multiplied


def add_gradients_summaries(grads_and_vars: Gradients) -> list[Any]:
    """A histogram and the length of each gradient."""
    summaries = []
    for gradient, variable in grads_and_vars:
        if gradient is not None:
            values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
            name = variable.op.name
            summaries.append(v1.summary.histogram(f"{name}_gradient", values))
            norm = tf.linalg.global_norm([values])
            summaries.append(v1.summary.scalar(f"{name}_gradient_norm", norm))
    return summaries


def _times(gradient: Any, factor: Any) -> Any:
    return _each_value(gradient, lambda g: g * tf.cast(factor, g.dtype))


def _each_value(gradient: Any, change: Callable[[Any], Any]) -> Any:
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(change(gradient.values), gradient.indices, gradient.dense_shape)
    return change(gradient)
