"""Keras 2, the package `tf_keras`."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimand.core.tf_private.execution import eager_mode


class Keras2:
    """The `Keras` protocol, of the package `tf_keras`.

    It has two families of optimizers: those of today, and `tf.keras.optimizers.legacy`, which
    hold their settings in `_hyper`.
    """

    package = "tf_keras"

    def library(self) -> Any:
        import tf_keras

        return tf_keras

    def learning_rate(self, optimizer: Any) -> Any:
        held = getattr(optimizer, "_hyper", None)
        return _number(optimizer._learning_rate if held is None else held["learning_rate"])

    def setting(self, optimizer: Any, name: str) -> Any:
        held = getattr(optimizer, "_hyper", {})
        places = (name, f"_{name}")  # the older family keeps some to itself
        value = held.get(name) if name in held else None
        for place in places:
            value = getattr(optimizer, place, None) if value is None else value
        return _number(value)

    def variables(self, optimizer: Any) -> list[tf.Variable]:
        variables = optimizer.variables
        return list(variables() if inspect.ismethod(variables) else variables)

    def gradients(self, optimizer: Any, loss: Any, variables: Sequence[Any]) -> list[Any]:
        """Those that an optimizer of somebody else takes itself, such as one that adds noise."""
        own = getattr(type(optimizer), "get_gradients", None)
        if own is None or own.__module__.startswith(f"{self.package}."):
            return tf.gradients(loss, list(variables))
        return list(own(optimizer, loss, list(variables)))

    def join_strategy(self, optimizer: Any) -> None:
        """It is told with each call of `apply`."""

    def build(self, optimizer: Any, variables: Sequence[Any]) -> None:
        """It does so itself, in a scope of its own."""

    def apply(self, optimizer: Any, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        pairs = list(zip(gradients, variables, strict=True))
        if hasattr(optimizer, "_hyper"):
            optimizer.apply_gradients(pairs, experimental_aggregate_gradients=False)
        else:
            optimizer.apply_gradients(pairs, skip_gradients_aggregation=True)


def _number(value: Any) -> Any:
    """A plain number in place of the variable that holds it; schedules as they are."""
    if isinstance(value, tf.Variable):
        with eager_mode():
            return value.numpy().item()
    return value
