"""`tf.contrib.layers`: initializers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.core.errors import ConfigError

v1 = tf.compat.v1


def xavier_initializer(
    uniform: bool = True, seed: int | None = None, dtype: Any = tf.float32
) -> Callable[..., tf.Tensor]:
    """Glorot's: the same spread of activations and gradients in all layers."""
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)


xavier_initializer_conv2d = xavier_initializer


def variance_scaling_initializer(
    factor: float = 2.0,
    mode: str = "FAN_IN",
    uniform: bool = False,
    seed: int | None = None,
    dtype: Any = tf.float32,
) -> Callable[..., tf.Tensor]:
    """Random numbers with a variance of `factor` divided by the fan."""
    if mode not in ("FAN_IN", "FAN_OUT", "FAN_AVG"):
        raise ConfigError(f"Unknown mode {mode} [FAN_IN, FAN_OUT, FAN_AVG]")
    if not tf.as_dtype(dtype).is_floating:
        raise ConfigError(f"Cannot create initializer for non-floating point type: {dtype}.")

    def initialize(shape: Any, dtype: Any = dtype, partition_info: Any = None) -> tf.Tensor:
        del partition_info
        spread = factor / max(1.0, _fan([int(size) for size in shape], mode))
        if uniform:
            limit = math.sqrt(3.0 * spread)
            return v1.random_uniform(shape, -limit, limit, dtype, seed=seed)
        # 1.3 makes up for what the truncation takes from the variance.
        return v1.truncated_normal(shape, 0.0, math.sqrt(1.3 * spread), dtype, seed=seed)

    return initialize


def _fan(shape: list[int], mode: str) -> float:
    area = math.prod(shape[:-2])
    fan_in = float(shape[-2] if len(shape) > 1 else (shape or [1])[-1]) * area
    fan_out = float((shape or [1])[-1]) * area
    return {"FAN_IN": fan_in, "FAN_OUT": fan_out, "FAN_AVG": (fan_in + fan_out) / 2.0}[mode]
