"""Follow the regularized leader: made for sparse linear models."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from estimand.canned.optimizers.base import Hyper, LegacyOptimizer
from estimand.core.errors import ConfigError


class Ftrl(LegacyOptimizer):
    """Arguments as in Keras 2.

    >>> Ftrl(0.2, l1_regularization_strength=0.001).slots()
    {'accumulator': 0.1, 'linear': 0.0}
    """

    def __init__(
        self,
        learning_rate: Hyper = 0.001,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        name: str = "Ftrl",
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: float = 0.0,
        **kwargs: Any,
    ) -> None:
        for argument, value in (
            ("initial_accumulator_value", initial_accumulator_value),
            ("l1_regularization_strength", l1_regularization_strength),
            ("l2_regularization_strength", l2_regularization_strength),
            ("l2_shrinkage_regularization_strength", l2_shrinkage_regularization_strength),
        ):
            if value < 0.0:
                raise ConfigError(f"`{argument}` needs to be positive or zero. Received: {value}.")
        if learning_rate_power > 0.0:
            raise ConfigError(
                "`learning_rate_power` needs to be negative or zero. "
                f"Received: {learning_rate_power}."
            )
        hypers = {
            "learning_rate": learning_rate,
            "learning_rate_power": learning_rate_power,
            "l1_regularization_strength": l1_regularization_strength,
            "l2_regularization_strength": l2_regularization_strength,
            "beta": beta,
        }
        super().__init__(name, hypers, **kwargs)
        self._start = initial_accumulator_value
        self._shrinkage = l2_shrinkage_regularization_strength

    def slots(self) -> dict[str, float]:
        return {"accumulator": self._start, "linear": 0.0}

    def update_dense(self, variable: tf.Variable, gradient: tf.Tensor, at: SimpleNamespace) -> Any:
        arguments = self._arguments(variable, gradient, at)
        if self._shrinkage > 0:
            return tf.raw_ops.ResourceApplyFtrlV2(**arguments)
        return tf.raw_ops.ResourceApplyFtrl(**arguments)

    def update_rows(
        self, variable: tf.Variable, gradient: tf.Tensor, rows: tf.Tensor, at: SimpleNamespace
    ) -> Any:
        arguments = self._arguments(variable, gradient, at)
        if self._shrinkage > 0:
            return tf.raw_ops.ResourceSparseApplyFtrlV2(indices=rows, **arguments)
        return tf.raw_ops.ResourceSparseApplyFtrl(indices=rows, **arguments)

    def _arguments(
        self, variable: tf.Variable, gradient: tf.Tensor, at: SimpleNamespace
    ) -> dict[str, Any]:
        arguments = {
            "var": variable.handle,
            "accum": at.slots.accumulator.handle,
            "linear": at.slots.linear.handle,
            "grad": gradient,
            "lr": at.rate,
            "l1": at.l1_regularization_strength,
            # The kernels know nothing of beta; as a term of l2 it has the same effect.
            "l2": at.l2_regularization_strength + at.beta / (2.0 * at.rate),
            "lr_power": at.learning_rate_power,
        }
        if self._shrinkage > 0:
            arguments["l2_shrinkage"] = tf.cast(self._shrinkage, variable.dtype)
        return arguments
