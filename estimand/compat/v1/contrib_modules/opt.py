"""`tf.contrib.opt`: Adam in the rows of a batch only, with Nesterov, and with weight decay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

_Adam: Any = tf.compat.v1.train.AdamOptimizer
_Momentum: Any = tf.compat.v1.train.MomentumOptimizer


class LazyAdamOptimizer(_Adam):
    """Adam whose averages move in those rows of an embedding only that a batch has looked up."""

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        return _apply_rows(self, grad, var, indices, nesterov=False)


class NadamOptimizer(_Adam):
    """Adam that looks ahead as Nesterov's momentum does."""

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        power1, power2 = self._get_beta_accumulators()
        dtype = var.dtype.base_dtype
        return tf.raw_ops.ResourceApplyAdam(
            var=var.handle,
            m=self.get_slot(var, "m").handle,
            v=self.get_slot(var, "v").handle,
            beta1_power=tf.cast(power1, dtype),
            beta2_power=tf.cast(power2, dtype),
            lr=tf.cast(self._lr_t, dtype),
            beta1=tf.cast(self._beta1_t, dtype),
            beta2=tf.cast(self._beta2_t, dtype),
            epsilon=tf.cast(self._epsilon_t, dtype),
            grad=grad,
            use_locking=self._use_locking,
            use_nesterov=True,
        )

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        return _apply_rows(self, grad, var, indices, nesterov=True)


def _apply_rows(adam: Any, grad: Any, var: Any, indices: Any, *, nesterov: bool) -> tf.Operation:
    """Adam's step in some rows; no row is in `indices` twice."""
    dtype = var.dtype.base_dtype
    power1, power2 = (tf.cast(power, dtype) for power in adam._get_beta_accumulators())
    rate, beta1, beta2, epsilon = (
        tf.cast(number, dtype)
        for number in (adam._lr_t, adam._beta1_t, adam._beta2_t, adam._epsilon_t)
    )
    rate *= tf.sqrt(1 - power2) / (1 - power1)
    first, second = adam.get_slot(var, "m"), adam.get_slot(var, "v")
    mean = beta1 * tf.gather(first, indices) + (1 - beta1) * grad
    square = beta2 * tf.gather(second, indices) + (1 - beta2) * grad * grad
    ahead = beta1 * mean + (1 - beta1) * grad if nesterov else mean
    step = rate * ahead / (tf.sqrt(square) + epsilon)
    return tf.group(
        first.scatter_update(tf.IndexedSlices(mean, indices)),
        second.scatter_update(tf.IndexedSlices(square, indices)),
        var.scatter_sub(tf.IndexedSlices(step, indices)),
    )


class DecoupledWeightDecayExtension:
    """Takes `weight_decay` of each variable off it before its step (Loshchilov and Hutter 2017)."""

    def __init__(self, weight_decay: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._weight_decay = weight_decay
        self._decayed: set[str] | None = None  # by name; None: all

    def minimize(
        self, *args: Any, decay_var_list: Sequence[Any] | None = None, **kwargs: Any
    ) -> Any:
        self._decay_only(decay_var_list)
        return super().minimize(*args, **kwargs)  # type: ignore[misc]

    def apply_gradients(
        self, *args: Any, decay_var_list: Sequence[Any] | None = None, **kwargs: Any
    ) -> Any:
        self._decay_only(decay_var_list)
        return super().apply_gradients(*args, **kwargs)  # type: ignore[misc]

    def _decay_only(self, variables: Sequence[Any] | None) -> None:
        if variables is not None:
            self._decayed = {variable.name for variable in variables}

    def _after_decay(self, grad: Any, var: Any) -> Any:
        if self._decayed is not None and var.name not in self._decayed:
            return tf.control_dependencies([])
        rate = self._weight_decay() if callable(self._weight_decay) else self._weight_decay
        with tf.control_dependencies([grad]):  # which is that of the weights before
            off = tf.cast(rate, var.dtype.base_dtype) * var
            return tf.control_dependencies([var.assign_sub(off, read_value=False)])

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        with self._after_decay(grad, var):
            return super()._resource_apply_dense(grad, var)  # type: ignore[misc]

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        with self._after_decay(grad, var):
            return super()._resource_apply_sparse(grad, var, indices)  # type: ignore[misc]


def extend_with_decoupled_weight_decay(base_optimizer: type) -> type:
    """A class like an optimizer's whose first argument is `weight_decay`."""
    return type(
        f"{base_optimizer.__name__}WithDecay", (DecoupledWeightDecayExtension, base_optimizer), {}
    )


class AdamWOptimizer(DecoupledWeightDecayExtension, _Adam):
    """Adam with weight decay; as ever, `weight_decay` is not multiplied by the learning rate."""

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "AdamW",
    ) -> None:
        super().__init__(weight_decay, learning_rate, beta1, beta2, epsilon, use_locking, name)


class MomentumWOptimizer(DecoupledWeightDecayExtension, _Momentum):
    """Momentum with weight decay, as `AdamWOptimizer`."""

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "MomentumW",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(weight_decay, learning_rate, momentum, use_locking, name, use_nesterov)
