"""A Keras optimizer once more, from the beginning: every trace builds its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.bridge.keras_names import optimizer_name
from estimand.core import tf_private
from estimand.core.errors import ConfigError


def optimizer_maker(optimizer: Any) -> Callable[[], Any]:
    """A function that gives an optimizer like this one, without its state.

    Accepts what `est.minimize` accepts. Keras optimizers hold variables, so that the very object
    could serve neither two estimators nor its own model as well.
    """
    import keras

    from estimand.bridge.v1_in_keras import V1InKeras

    if isinstance(optimizer, V1InKeras):
        optimizer = optimizer.v1
    if isinstance(optimizer, str):
        optimizer = keras.optimizers.get(optimizer)
    if isinstance(optimizer, keras.optimizers.Optimizer):
        make = _keras_maker(optimizer)
        _try(make, optimizer)
        return make
    if hasattr(optimizer, "maker"):  # est.fine_tuning.Groups
        return optimizer.maker()
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        return lambda: tf_private.v1_optimizer_without_state(optimizer)
    if hasattr(optimizer, "make_train_op"):
        return lambda: optimizer
    if callable(optimizer):
        return optimizer
    raise ConfigError(
        f"optimizer={optimizer!r} cannot be used. Give a Keras optimizer, a tf.compat.v1.train "
        "one, est.fine_tuning.Groups, or a function that returns one of these."
    )


def _keras_maker(optimizer: Any) -> Callable[[], Any]:
    """The settings are read now: inside a trace their values could not be."""
    import keras

    from estimand.bridge.v1_in_keras import V1InKeras

    if isinstance(optimizer, V1InKeras):  # inside of one that scales losses
        return lambda: V1InKeras(tf_private.v1_optimizer_without_state(optimizer.v1))
    kind, config = type(optimizer), optimizer.get_config()
    config["name"] = optimizer_name(optimizer)
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        make_inner = _keras_maker(optimizer.inner_optimizer)
        return lambda: kind(**{**config, "inner_optimizer": make_inner()})
    # The schedule itself, not its config: only of Keras' own classes that leads back to it.
    config["learning_rate"] = tf_private.keras_learning_rate(optimizer)
    return lambda: kind.from_config(dict(config))


def _try(make: Callable[[], Any], optimizer: Any) -> None:
    """Complain now, not when training begins."""
    try:
        make()
    except TypeError as error:
        raise ConfigError(
            f"The optimizer {type(optimizer).__name__} cannot be made anew from its get_config() "
            f"({error}). Let get_config give all arguments of its constructor, or pass "
            "optimizer=a function that returns one."
        ) from error
