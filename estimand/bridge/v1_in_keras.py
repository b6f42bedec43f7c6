"""Optimizers of `tf.train` in `model.compile`, which Keras took for years and Keras 3 refuses.

`estimand.install()` lets Keras accept them; what a model is then compiled with is a V1InKeras.
"""

from __future__ import annotations

import contextlib
import inspect
import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras  # noqa: TID253  (this module is loaded only where Keras is in use already)
import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import ConfigError

_log = logging.getLogger("tensorflow")
_NOT_SAVED = (
    "An optimizer of tf.train ({kind}) is not saved with a Keras model: neither its settings nor "
    "its state can be read."
)


@keras.saving.register_keras_serializable(package="estimand")
class V1InKeras(keras.optimizers.Optimizer):
    """A Keras optimizer that lets one of `tf.compat.v1.train` do the work.

    >>> import keras, numpy as np, tensorflow as tf
    >>> model = keras.Sequential([keras.Input([2]), keras.layers.Dense(1)])
    >>> model.compile(V1InKeras(tf.compat.v1.train.GradientDescentOptimizer(0.5)), "mse")
    >>> history = model.fit(np.ones([4, 2]), np.ones([4, 1]), verbose=0)
    >>> float(model.optimizer.learning_rate)
    0.5
    """

    def __init__(self, v1: Any = None, *, name: str | None = None, kind: str = "") -> None:
        rate = None if v1 is None else tf_private.v1_learning_rate(v1)
        super().__init__(learning_rate=_number(rate), name=name)
        self._v1_rate = rate
        self._kind = kind or type(v1).__name__
        # Held where Keras, which keeps account of all attributes, does not look into it.
        self._wrapped: Callable[[], Any] = lambda: v1

    @property
    def v1(self) -> Any:
        """The optimizer of `tf.train`."""
        wrapped = self._wrapped()
        if wrapped is None:
            raise ConfigError(
                _NOT_SAVED.format(kind=self._kind)
                + " Call model.compile(...) again before training a model that was loaded."
            )
        return wrapped

    @property
    def learning_rate(self) -> Any:
        """The rate of the optimizer of `tf.train`; NaN if it does not tell."""
        return _number(self._v1_rate)

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        raise ConfigError(
            f"learning_rate={value!r}: the rate of an optimizer of tf.train ({self._kind}) is "
            "fixed when it is made. Give it a function without arguments that returns the rate, "
            "or compile the model with an optimizer of tf.keras.optimizers."
        )

    def apply(self, grads: Any, trainable_variables: Sequence[Any] | None = None) -> None:
        """Change the variables as the optimizer of `tf.train` does, then the constraints."""
        if trainable_variables is None:
            raise ConfigError("apply(grads) of an optimizer of tf.train needs the variables too.")
        variables = list(trainable_variables)
        plain = [getattr(v, "value", v) for v in variables]
        # In graphs an operation follows; eagerly, and in a tf.function, all is done here.
        update = self.v1.apply_gradients(zip(grads, plain, strict=True))
        with _after(update):
            for variable in variables:
                if getattr(variable, "constraint", None) is not None:
                    variable.assign(variable.constraint(variable))
            self.iterations.assign_add(1)

    def get_config(self) -> dict[str, Any]:
        """No more than what it was: a model is saved without an optimizer of `tf.train`."""
        return {"name": self.name, "kind": self._kind}

    def save_own_variables(self, store: Any) -> None:
        """Says that the optimizer is not in the file that is being written."""
        _log.warning(
            "%s Load the model with compile=False and call model.compile(...) to go on training.",
            _NOT_SAVED.format(kind=self._kind),
        )
        super().save_own_variables(store)


def lookup(known: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`keras.optimizers.get` that takes optimizers of `tf.train` as well."""

    def get(identifier: Any) -> Any:
        if isinstance(identifier, tf.compat.v1.train.Optimizer):
            return V1InKeras(identifier)
        if hasattr(identifier, "make_train_op") and hasattr(identifier, "get_config"):
            return _as_keras_3(identifier)
        return known(identifier)

    get.__doc__ = known.__doc__
    return get


def _as_keras_3(optimizer: Any) -> Any:
    """What does the same as an optimizer of `tf.keras.optimizers.legacy`."""
    kind = getattr(keras.optimizers, type(optimizer).__name__, None)
    if kind is None:
        raise ConfigError(
            f"compile(optimizer={optimizer!r}): Keras 3 has no {type(optimizer).__name__}. Use "
            "one of tf.keras.optimizers, or Keras 2: estimand.install(keras=2)."
        )
    config = {**vars(optimizer), **optimizer.get_config()}
    rate, decay = config["learning_rate"], config.pop("decay", 0.0)
    if decay and not callable(rate):
        config["learning_rate"] = keras.optimizers.schedules.InverseTimeDecay(rate, 1, decay)
    taken = inspect.signature(kind).parameters
    return kind(**{name: value for name, value in config.items() if name in taken})


def _number(rate: Any) -> float:
    """The rate as it is now, if that can be known."""
    rate = rate() if callable(rate) else rate
    if tf.is_tensor(rate) and not hasattr(rate, "numpy"):
        return math.nan
    return math.nan if rate is None else float(rate)


def _after(update: Any) -> Any:
    if isinstance(update, tf.Operation):
        return tf.control_dependencies([update])
    return contextlib.nullcontext()
