"""The training step of a head, and what it writes for TensorBoard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import tensorflow as tf

from estimand.core.errors import HeadError
from estimand.core.tf_private import kerases
from estimand.engine.minimize import minimize
from estimand.heads.checks import in_session_graph
from estimand.heads.keys import MetricKeys
from estimand.heads.losses import over_batch, regularization_loss

# What the optimizer's variables are called after in checkpoints, while a train_op is being made.
scope_in_checkpoints: ContextVar[str] = ContextVar("scope_in_checkpoints", default="training")


def make_train_op(
    loss: tf.Tensor,
    reduction: str,
    *,
    optimizer: Any = None,
    trainable_variables: Sequence[Any] | None = None,
    train_op_fn: Callable[[tf.Tensor], Any] | None = None,
    update_ops: Sequence[Any] | None = None,
    scope: str = "training",
) -> tf.Operation | tf.Tensor:
    """The step that minimizes `loss`, by an optimizer or by the caller's own function."""
    _check_list("update_ops", update_ops)
    if optimizer is not None and train_op_fn is not None:
        raise HeadError("train_op_fn and optimizer cannot both be set.")
    if optimizer is None and train_op_fn is None:
        raise HeadError(
            "train_op_fn and optimizer cannot both be None. In TRAIN mode pass one of them, e.g. "
            "optimizer=keras.optimizers.Adam(1e-3)."
        )
    # Optimizers of v1 name their counters after the scope they are made in.
    token = scope_in_checkpoints.set(scope)
    try:
        with tf.compat.v1.name_scope(None), tf.compat.v1.name_scope("training"):
            if train_op_fn is not None:
                train_op = train_op_fn(loss)
            else:
                _check_optimizer(optimizer)
                _check_trainable_variables(trainable_variables)
                train_op = minimize(
                    optimizer, loss, trainable_variables, loss_reduction=over_batch(reduction)
                )
            return tf.group(train_op, *update_ops) if update_ops else train_op
    finally:
        scope_in_checkpoints.reset(token)


def summarise(
    loss: tf.Tensor,
    regularization_losses: Sequence[Any] | None,
    key: Callable[[str], str] = str,
) -> None:
    """The scalars of training."""
    with tf.compat.v1.name_scope(None):
        tf.compat.v1.summary.scalar(key(MetricKeys.LOSS), loss)
        regularization = regularization_loss(regularization_losses)
        if regularization is not None:
            tf.compat.v1.summary.scalar(key(MetricKeys.LOSS_REGULARIZATION), regularization)


def _check_trainable_variables(variables: Any) -> None:
    nothing_made = not tf.executing_eagerly() and not tf.compat.v1.global_variables()
    captured = getattr(tf.compat.v1.get_default_graph(), "captures", ())
    if variables is None and in_session_graph():
        raise HeadError(
            "trainable_variables cannot be None. Given None. In a graph of your own, pass "
            "tf.compat.v1.trainable_variables()."
        )
    if variables is None and nothing_made and not captured:
        raise HeadError(
            "trainable_variables cannot be None. Given None, and there are no variables in this "
            "graph that could be trained."
        )
    _check_list("trainable_variables", variables)


def _check_list(name: str, value: Any) -> None:
    if value is not None and not isinstance(value, (list, tuple)):
        raise HeadError(f"{name} should be a list or a tuple. Given type: {type(value)}.")


def _check_optimizer(optimizer: Any) -> None:
    usable = (
        isinstance(optimizer, (str, tf.compat.v1.train.Optimizer))
        or any(callable(getattr(optimizer, method, None)) for method in ("apply", "make_train_op"))
        or kerases.is_optimizer(optimizer)
    )
    if not usable or isinstance(optimizer, type):
        raise HeadError(
            "The given optimizer is not a tf.keras.optimizers.Optimizer instance. "
            f"Received optimizer of type {type(optimizer)}. Pass for example "
            "keras.optimizers.Adam(1e-3) or tf.compat.v1.train.AdamOptimizer(1e-3)."
        )
