"""Optimizers around optimizers: the one inside computes, applies and owns the variables."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class OptimizerWrapper(tf.compat.v1.train.Optimizer):
    """Passes everything on; subclasses change the gradients in between."""

    def __init__(self, optimizer: Any, name: str) -> None:
        super().__init__(use_locking=False, name=name)
        self._inside = optimizer

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        return self._inside.compute_gradients(*args, **kwargs)

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        pairs = self._changed(list(grads_and_vars))
        return self._inside.apply_gradients(pairs, *args, **kwargs)

    def get_slot(self, var: Any, name: str) -> Any:
        return self._inside.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        return self._inside.get_slot_names()

    def variables(self) -> list[Any]:
        return self._inside.variables()

    def _changed(self, grads_and_vars: list[Any]) -> list[Any]:
        return grads_and_vars


class ClipByGlobalNorm(OptimizerWrapper):
    """Clips the gradients by their common norm before they are applied."""

    def __init__(self, optimizer: Any, clip_norm: float) -> None:
        super().__init__(optimizer, f"Clip{type(optimizer).__name__}")
        self._clip_norm = clip_norm

    def _changed(self, grads_and_vars: list[Any]) -> list[Any]:
        gradients, variables = zip(*grads_and_vars, strict=True)
        clipped, _ = tf.clip_by_global_norm(gradients, self._clip_norm)
        return list(zip(clipped, variables, strict=True))
