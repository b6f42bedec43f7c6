"""`tf.contrib.layers.optimize_loss`: from a loss to a training step, with all that goes with it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimand.core.errors import ConfigError

v1 = tf.compat.v1

OPTIMIZER_CLS_NAMES = {
    "Adagrad": v1.train.AdagradOptimizer,
    "Adam": v1.train.AdamOptimizer,
    "Ftrl": v1.train.FtrlOptimizer,
    "Momentum": lambda learning_rate: v1.train.MomentumOptimizer(learning_rate, momentum=0.9),
    "RMSProp": v1.train.RMSPropOptimizer,
    "SGD": v1.train.GradientDescentOptimizer,
}
OPTIMIZER_SUMMARIES = (
    "learning_rate",
    "loss",
    "gradients",
    "gradient_norm",
    "global_gradient_norm",
)
_BY_DEFAULT = ("loss", "learning_rate", "global_gradient_norm")


def optimize_loss(
    loss: Any,
    global_step: Any,
    learning_rate: Any,
    optimizer: Any,
    gradient_noise_scale: float | None = None,
    gradient_multipliers: dict[Any, Any] | None = None,
    clip_gradients: Any = None,
    learning_rate_decay_fn: Callable[[Any, Any], Any] | None = None,
    update_ops: Sequence[Any] | None = None,
    variables: Sequence[Any] | None = None,
    name: str | None = None,
    summaries: Sequence[str] | None = None,
    colocate_gradients_with_ops: bool = False,
    increment_global_step: bool = True,
) -> tf.Tensor:
    """A train_op that gives the loss.

    The optimizer is one, a name of `OPTIMIZER_CLS_NAMES`, a class, or a function of the rate;
    a rate that is a number becomes the variable `OptimizeLoss/learning_rate`.
    """
    loss = tf.convert_to_tensor(loss)
    told = _BY_DEFAULT if summaries is None else tuple(summaries)
    for summary in told:
        if summary not in OPTIMIZER_SUMMARIES:
            raise ConfigError(
                f"Summaries should be one of [{', '.join(OPTIMIZER_SUMMARIES)}], "
                f"you provided {summary}"
            )
    step = v1.train.get_global_step() if global_step is None else global_step
    with v1.variable_scope(name, "OptimizeLoss", [loss]):
        updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS) if update_ops is None else update_ops
        if updates:
            with tf.control_dependencies(list(updates)):
                loss = tf.identity(loss)
        rate = _rate(learning_rate, learning_rate_decay_fn, step)
        if rate is not None and "learning_rate" in told:
            v1.summary.scalar("learning_rate", rate)
        made = _optimizer(optimizer, rate)
        chosen = v1.trainable_variables() if variables is None else list(variables)
        pairs = made.compute_gradients(
            loss, chosen, colocate_gradients_with_ops=colocate_gradients_with_ops
        )
        pairs = _noisy(pairs, gradient_noise_scale)
        pairs = _multiplied(pairs, gradient_multipliers or {})
        pairs = _clipped(pairs, clip_gradients)
        _summarise(told, loss, pairs)
        advanced = step if increment_global_step else None
        applied = made.apply_gradients(pairs, global_step=advanced, name="train")
        with tf.control_dependencies([applied]):
            return tf.identity(loss, name="train_op")


def _rate(given: Any, decay: Callable[[Any, Any], Any] | None, step: Any) -> Any:
    if given is None:
        return None
    rate = given
    if isinstance(given, (int, float)):
        if given < 0.0:
            raise ConfigError(f"Invalid learning_rate {given}.")
        constant = v1.constant_initializer(float(given))
        rate = v1.get_variable("learning_rate", [], initializer=constant, trainable=False)
    if decay is None:
        return rate
    if step is None:
        raise ConfigError("global_step is required for learning_rate_decay_fn.")
    return decay(rate, step)


def _optimizer(given: Any, rate: Any) -> Any:
    if isinstance(given, str):
        if given not in OPTIMIZER_CLS_NAMES:
            raise ConfigError(
                f"Optimizer name should be one of [{', '.join(OPTIMIZER_CLS_NAMES)}], you "
                f"provided {given}."
            )
        given = OPTIMIZER_CLS_NAMES[given]
    elif isinstance(given, v1.train.Optimizer) or hasattr(given, "apply_gradients"):
        if not inspect.isclass(given):
            return given
    elif not callable(given):
        raise ConfigError(
            "Unrecognized optimizer: should be string, subclass of Optimizer, instance of "
            f"subclass of Optimizer or function with one argument. Got {given!r}."
        )
    if rate is None and (inspect.isclass(given) or given in OPTIMIZER_CLS_NAMES.values()):
        raise ConfigError("Learning rate must be specified if the optimizer is a class or a name.")
    if inspect.isclass(given) or given in OPTIMIZER_CLS_NAMES.values():
        return given(learning_rate=rate)
    return given(rate) if rate is not None else given()


def _noisy(pairs: Any, scale: float | None) -> list[Any]:
    if scale is None:
        return list(pairs)
    return [(g if g is None else g + scale * v1.truncated_normal(tf.shape(g)), v) for g, v in pairs]


def _multiplied(pairs: Any, factors: dict[Any, Any]) -> list[Any]:
    def factor(variable: Any) -> Any:
        by_name = factors.get(variable.op.name, factors.get(variable.name))
        mine = [value for key, value in factors.items() if key is variable]
        return mine[0] if mine else by_name

    def scaled(gradient: Any, by: Any) -> Any:
        if isinstance(gradient, tf.IndexedSlices):
            values = gradient.values * tf.cast(by, gradient.dtype)
            return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
        return gradient * tf.cast(by, gradient.dtype)

    return [(g if g is None or factor(v) is None else scaled(g, factor(v)), v) for g, v in pairs]


def _clipped(pairs: Any, clip: Any) -> list[Any]:
    if clip is None:
        return list(pairs)
    if callable(clip):
        return list(clip(pairs))
    if not isinstance(clip, (int, float)):
        raise ConfigError(
            f"Unknown type {type(clip)} for clip_gradients. Pass a number, a function."
        )
    gradients, variables = zip(*pairs, strict=True)
    kept, _ = tf.clip_by_global_norm(list(gradients), float(clip))
    return list(zip(kept, variables, strict=True))


def _summarise(told: Sequence[str], loss: Any, pairs: Any) -> None:
    if "loss" in told:
        v1.summary.scalar("loss", loss)
    gradients = [g for g, _ in pairs if g is not None]
    if "global_gradient_norm" in told:
        v1.summary.scalar("global_norm/gradient_norm", tf.linalg.global_norm(gradients))
    for gradient, variable in pairs:
        if gradient is None:
            continue
        values = gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient
        tag = variable.name.replace(":", "_")
        if "gradients" in told:
            v1.summary.histogram(f"gradients/{tag}", values)
        if "gradient_norm" in told:
            v1.summary.scalar(f"gradient_norm/{tag}", tf.linalg.global_norm([values]))
