"""Adagrad: each weight's rate shrinks with the squares of its past gradients."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from estimand.canned.optimizers.base import Hyper, LegacyOptimizer
from estimand.core.errors import ConfigError


class Adagrad(LegacyOptimizer):
    """Arguments as in Keras 2.

    >>> Adagrad(0.05).slots()
    {'accumulator': 0.1}
    """

    def __init__(
        self,
        learning_rate: Hyper = 0.001,
        initial_accumulator_value: float = 0.1,
        epsilon: float = 1e-7,
        name: str = "Adagrad",
        **kwargs: Any,
    ) -> None:
        if initial_accumulator_value < 0.0:
            raise ConfigError(
                f"initial_accumulator_value must be non-negative: {initial_accumulator_value}"
            )
        super().__init__(name, {"learning_rate": learning_rate}, **kwargs)
        self._start = initial_accumulator_value
        self._epsilon = epsilon

    def slots(self) -> dict[str, float]:
        return {"accumulator": self._start}

    def update_dense(self, variable: tf.Variable, gradient: tf.Tensor, at: SimpleNamespace) -> Any:
        return tf.raw_ops.ResourceApplyAdagradV2(
            var=variable.handle,
            accum=at.slots.accumulator.handle,
            lr=at.rate,
            epsilon=tf.cast(self._epsilon, variable.dtype),
            grad=gradient,
        )

    def update_rows(
        self, variable: tf.Variable, gradient: tf.Tensor, rows: tf.Tensor, at: SimpleNamespace
    ) -> Any:
        return tf.raw_ops.ResourceSparseApplyAdagradV2(
            var=variable.handle,
            accum=at.slots.accumulator.handle,
            lr=at.rate,
            epsilon=tf.cast(self._epsilon, variable.dtype),
            grad=gradient,
            indices=rows,
        )
