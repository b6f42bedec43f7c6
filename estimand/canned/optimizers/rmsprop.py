"""RMSprop: gradients divided by a running mean of their size."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import tensorflow as tf

from estimand.canned.optimizers.base import (
    Hyper,
    LegacyOptimizer,
    decay_and_add,
    momentum_in_range,
)


class RMSprop(LegacyOptimizer):
    """Arguments as in Keras 2.

    >>> RMSprop(momentum=0.9, centered=True).slots()
    {'rms': 0.0, 'momentum': 0.0, 'mg': 0.0}
    """

    def __init__(
        self,
        learning_rate: Hyper = 0.001,
        rho: Hyper = 0.9,
        momentum: Hyper = 0.0,
        epsilon: float = 1e-7,
        centered: bool = False,
        name: str = "RMSprop",
        **kwargs: Any,
    ) -> None:
        self._keeps_momentum = momentum_in_range(momentum)
        hypers = {"learning_rate": learning_rate, "rho": rho, "momentum": momentum}
        super().__init__(name, hypers, **kwargs)
        self._epsilon = epsilon
        self._centered = centered

    def slots(self) -> dict[str, float]:
        names = ["rms"]
        names += ["momentum"] if self._keeps_momentum else []
        names += ["mg"] if self._centered else []
        return dict.fromkeys(names, 0.0)

    def update_dense(self, variable: tf.Variable, gradient: tf.Tensor, at: SimpleNamespace) -> Any:
        if self._keeps_momentum:
            arguments = self._kernel_arguments(variable, gradient, at)
            if self._centered:
                return tf.raw_ops.ResourceApplyCenteredRMSProp(**arguments)
            return tf.raw_ops.ResourceApplyRMSProp(**arguments)
        size = _assigned(at.slots.rms, at.rho, (1.0 - at.rho) * tf.square(gradient))
        if self._centered:
            mean = _assigned(at.slots.mg, at.rho, (1.0 - at.rho) * gradient)
            size -= tf.square(mean)
        move = at.rate * gradient / (tf.sqrt(size) + tf.cast(self._epsilon, size.dtype))
        return variable.assign_sub(move, read_value=False)

    def update_rows(
        self, variable: tf.Variable, gradient: tf.Tensor, rows: tf.Tensor, at: SimpleNamespace
    ) -> Any:
        if self._keeps_momentum:
            arguments = self._kernel_arguments(variable, gradient, at)
            if self._centered:
                return tf.raw_ops.ResourceSparseApplyCenteredRMSProp(indices=rows, **arguments)
            return tf.raw_ops.ResourceSparseApplyRMSProp(indices=rows, **arguments)
        # The means of all rows decay, but only these rows move.
        square = (1.0 - at.rho) * gradient * gradient
        size = tf.gather(decay_and_add(at.slots.rms, at.rho, rows, square), rows)
        if self._centered:
            mean = decay_and_add(at.slots.mg, at.rho, rows, (1.0 - at.rho) * gradient)
            size -= tf.square(tf.gather(mean, rows))
        move = -at.rate * gradient / (tf.sqrt(size) + tf.cast(self._epsilon, size.dtype))
        return tf.raw_ops.ResourceScatterAdd(resource=variable.handle, indices=rows, updates=move)

    def _kernel_arguments(
        self, variable: tf.Variable, gradient: tf.Tensor, at: SimpleNamespace
    ) -> dict[str, Any]:
        arguments = {
            "var": variable.handle,
            "ms": at.slots.rms.handle,
            "mom": at.slots.momentum.handle,
            "lr": at.rate,
            "rho": at.rho,
            "momentum": at.momentum,
            "epsilon": tf.cast(self._epsilon, variable.dtype),
            "grad": gradient,
        }
        if self._centered:
            arguments["mg"] = at.slots.mg.handle
        return arguments


def _assigned(slot: tf.Variable, decay: tf.Tensor, gain: tf.Tensor) -> tf.Tensor:
    value = decay * slot.read_value() + gain
    with tf.control_dependencies([slot.assign(value, read_value=False)]):
        return tf.identity(value)
