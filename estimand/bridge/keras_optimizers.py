"""A Keras optimizer once more, from the beginning: every trace builds its own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import ConfigError

_log = logging.getLogger("tensorflow")


def optimizer_maker(optimizer: Any) -> Callable[[], Any]:
    """A function that gives an optimizer like this one, without its state.

    Accepts what `est.minimize` accepts. Keras optimizers hold variables, so that the very object
    could serve neither two estimators nor its own model as well.
    """
    import keras

    if isinstance(optimizer, str):
        optimizer = keras.optimizers.get(optimizer)
    if isinstance(optimizer, keras.optimizers.Optimizer):
        fresh_optimizer(optimizer)  # complains now, not in the middle of training
        return lambda: fresh_optimizer(optimizer)
    if hasattr(optimizer, "fresh"):
        return optimizer.fresh
    if isinstance(optimizer, tf.compat.v1.train.Optimizer) or hasattr(optimizer, "make_train_op"):
        return lambda: optimizer
    if callable(optimizer):
        return optimizer
    raise ConfigError(
        f"optimizer={optimizer!r} cannot be used. Give a Keras optimizer, a tf.compat.v1.train "
        "one, est.fine_tuning.Groups, or a function that returns one of these."
    )


def fresh_optimizer(optimizer: Any) -> Any:
    """The same kind of optimizer with the same settings, schedules included."""
    import keras

    config = optimizer.get_config()
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        config["inner_optimizer"] = fresh_optimizer(optimizer.inner_optimizer)
        return type(optimizer)(**config)
    # The schedule itself, not its config: only of Keras' own classes that leads back to it.
    config["learning_rate"] = tf_private.keras_learning_rate(optimizer)
    try:
        return type(optimizer).from_config(config)
    except TypeError as error:
        raise ConfigError(
            f"The optimizer {type(optimizer).__name__} cannot be made anew from its get_config() "
            f"({error}). Let get_config give all arguments of its constructor, or pass "
            "optimizer=a function that returns one."
        ) from error
