"""Gradient descent, with momentum if wanted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from estimand.canned.optimizers.base import Hyper, LegacyOptimizer, momentum_in_range


class SGD(LegacyOptimizer):
    """Arguments as in Keras 2.

    >>> SGD().slots(), SGD(momentum=0.9).slots()
    ({}, {'momentum': 0.0})
    """

    def __init__(
        self,
        learning_rate: Hyper = 0.01,
        momentum: Hyper = 0.0,
        nesterov: bool = False,
        name: str = "SGD",
        **kwargs: Any,
    ) -> None:
        self._keeps_momentum = momentum_in_range(momentum)
        super().__init__(name, {"learning_rate": learning_rate, "momentum": momentum}, **kwargs)
        self._nesterov = nesterov

    def slots(self) -> dict[str, float]:
        return {"momentum": 0.0} if self._keeps_momentum else {}

    def update_dense(self, variable: tf.Variable, gradient: tf.Tensor, at: SimpleNamespace) -> Any:
        if not self._keeps_momentum:
            return tf.raw_ops.ResourceApplyGradientDescent(
                var=variable.handle, alpha=at.rate, delta=gradient
            )
        return tf.raw_ops.ResourceApplyKerasMomentum(
            var=variable.handle,
            accum=at.slots.momentum.handle,
            lr=at.rate,
            grad=gradient,
            momentum=at.momentum,
            use_nesterov=self._nesterov,
        )

    def update_rows(
        self, variable: tf.Variable, gradient: tf.Tensor, rows: tf.Tensor, at: SimpleNamespace
    ) -> Any:
        if not self._keeps_momentum:
            return tf.raw_ops.ResourceScatterAdd(
                resource=variable.handle, indices=rows, updates=-at.rate * gradient
            )
        return tf.raw_ops.ResourceSparseApplyKerasMomentum(
            var=variable.handle,
            accum=at.slots.momentum.handle,
            lr=at.rate,
            grad=gradient,
            indices=rows,
            momentum=at.momentum,
            use_nesterov=self._nesterov,
        )
