"""Optimizers by name, as canned models take them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.canned.optimizers import choice
from estimand.core.errors import ConfigError


def get_optimizer_instance(opt: Any, learning_rate: float | None = None) -> Any:
    """The v1 optimizer: by name, by a function that makes it, or as given.

    >>> type(get_optimizer_instance("Ftrl", 0.1)).__name__
    'FtrlOptimizer'
    """
    if isinstance(opt, str):
        kind = choice._named(opt, choice.V1_BY_NAME)
        if learning_rate is None:
            raise ConfigError("learning_rate must be specified when opt is string.")
        return kind(learning_rate=learning_rate)
    if callable(opt) and not isinstance(opt, tf.compat.v1.train.Optimizer):
        opt = opt()
    if not hasattr(opt, "apply_gradients") and not hasattr(opt, "make_train_op"):
        raise ConfigError(
            "The given object is not an Optimizer instance. "
            f"Given: {opt}. Give a name ('Adagrad', 'Adam', 'Ftrl', 'RMSProp', 'SGD'), an "
            "optimizer, or a function that makes one."
        )
    return opt


def get_optimizer_instance_v2(opt: Any, learning_rate: float | None = None) -> Any:
    """The optimizer that `tf.estimator` means by a name, or the one given."""
    return choice.choose_optimizer(opt, learning_rate)
