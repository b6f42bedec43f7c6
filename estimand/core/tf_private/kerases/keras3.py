"""Keras 3."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimand.core.tf_private.keras import keras_learning_rate
from estimand.core.tf_private.strategies import (
    keras_gradients_are_summed,
    keras_optimizer_belongs_to,
)


class Keras3:
    """The `Keras` protocol, of the package `keras`."""

    package = "keras"

    def library(self) -> Any:
        import keras

        return keras

    def learning_rate(self, optimizer: Any) -> Any:
        return keras_learning_rate(optimizer)

    def setting(self, optimizer: Any, name: str) -> Any:
        return getattr(optimizer, name, None)

    def variables(self, optimizer: Any) -> list[tf.Variable]:
        return [variable.value for variable in optimizer.variables]

    def gradients(self, optimizer: Any, loss: Any, variables: Sequence[Any]) -> list[Any]:
        """Its optimizers are given gradients, and take none."""
        del optimizer
        return tf.gradients(loss, list(variables))

    def join_strategy(self, optimizer: Any) -> None:
        if tf.distribute.has_strategy():
            keras_optimizer_belongs_to(optimizer, tf.distribute.get_strategy())
            keras_gradients_are_summed(optimizer)

    def build(self, optimizer: Any, variables: Sequence[Any]) -> None:
        if not optimizer.built:
            optimizer.build(list(variables))

    def apply(self, optimizer: Any, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        optimizer.apply(list(gradients), list(variables))
