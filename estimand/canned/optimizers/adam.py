"""Adam: running means of gradients and of their squares."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from estimand.canned.optimizers.base import Hyper, LegacyOptimizer, decay_and_add


class Adam(LegacyOptimizer):
    """Arguments as in Keras 2.

    >>> Adam(amsgrad=True).slots()
    {'m': 0.0, 'v': 0.0, 'vhat': 0.0}
    """

    def __init__(
        self,
        learning_rate: Hyper = 0.001,
        beta_1: Hyper = 0.9,
        beta_2: Hyper = 0.999,
        epsilon: float = 1e-7,
        amsgrad: bool = False,
        name: str = "Adam",
        **kwargs: Any,
    ) -> None:
        hypers = {"learning_rate": learning_rate, "beta_1": beta_1, "beta_2": beta_2}
        super().__init__(name, hypers, **kwargs)
        self._epsilon = epsilon
        self._amsgrad = amsgrad

    def slots(self) -> dict[str, float]:
        return {"m": 0.0, "v": 0.0, **({"vhat": 0.0} if self._amsgrad else {})}

    def update_dense(self, variable: tf.Variable, gradient: tf.Tensor, at: SimpleNamespace) -> Any:
        arguments = {
            "var": variable.handle,
            "m": at.slots.m.handle,
            "v": at.slots.v.handle,
            "beta1_power": at.beta_1**at.updates,
            "beta2_power": at.beta_2**at.updates,
            "lr": at.rate,
            "beta1": at.beta_1,
            "beta2": at.beta_2,
            "epsilon": tf.cast(self._epsilon, variable.dtype),
            "grad": gradient,
        }
        if self._amsgrad:
            return tf.raw_ops.ResourceApplyAdamWithAmsgrad(vhat=at.slots.vhat.handle, **arguments)
        return tf.raw_ops.ResourceApplyAdam(**arguments)

    def update_rows(
        self, variable: tf.Variable, gradient: tf.Tensor, rows: tf.Tensor, at: SimpleNamespace
    ) -> Any:
        # Not lazy: the means of all rows decay, and every row moves by its mean.
        mean = decay_and_add(at.slots.m, at.beta_1, rows, (1.0 - at.beta_1) * gradient)
        square = decay_and_add(at.slots.v, at.beta_2, rows, (1.0 - at.beta_2) * gradient * gradient)
        if self._amsgrad:
            square = tf.maximum(at.slots.vhat.read_value(), square)
            with tf.control_dependencies([square]):
                kept = at.slots.vhat.assign(square, read_value=False)
        else:
            kept = None
        unbiased = tf.sqrt(1.0 - at.beta_2**at.updates) / (1.0 - at.beta_1**at.updates)
        move = at.rate * unbiased * mean / (tf.sqrt(square) + tf.cast(self._epsilon, mean.dtype))
        with tf.control_dependencies([kept] if kept is not None else []):
            return variable.assign_sub(move, read_value=False)
