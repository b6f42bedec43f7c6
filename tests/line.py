"""The smallest model there is, a line through the origin, and its numbers in NumPy.

The model of all tests that need some model: what they are about is something else. That of
`tests/estimator/lifecycle/line.py` comes with specs, exporters and no metrics.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import estimand as est
from estimand.engine.tracing.trace import Trace, trace_model
from estimand.engine.variables.store import VariableStore

v1 = tf.compat.v1

X = np.float32([1, 2, 3, 4])
Y = 2 * X
RATE = 0.01
BATCHES = [(X[:2], Y[:2]), (X[2:], Y[2:])]


def batches() -> tf.data.Dataset:
    """Two batches of two rows."""
    return tf.data.Dataset.from_tensor_slices(({"x": X}, Y)).batch(2)


def endless() -> tf.data.Dataset:
    return batches().repeat()


def features_only() -> tf.data.Dataset:
    return batches().map(lambda features, labels: features)


def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    """y = w x, from w = 1, by plain gradient descent."""
    w = v1.get_variable("w", [], initializer=v1.ones_initializer())
    y = features["x"] * w
    if mode == est.ModeKeys.PREDICT:
        return est.EstimatorSpec(mode, predictions={"y": y, "x": features["x"]})
    loss = tf.reduce_mean(tf.square(y - labels))
    optimizer = v1.train.GradientDescentOptimizer(RATE)
    train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
    metrics = {"mae": v1.metrics.mean_absolute_error(labels, y)}
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def weight_after(steps: int) -> float:
    """w after so many steps on `endless`."""
    w = 1.0
    for step in range(steps):
        x, y = BATCHES[step % 2]
        w -= RATE * float(np.mean(2 * x * (w * x - y)))
    return w


def loss_of(w: float, batch: int) -> float:
    x, y = BATCHES[batch]
    return float(np.mean((w * x - y) ** 2))


def config(**options: Any) -> est.RunConfig:
    return est.RunConfig(**{"progress": False, **options})


def estimator(model_dir: str | Path, function: Any = model_fn, **options: Any) -> est.Estimator:
    return est.Estimator(function, str(model_dir), config(**options))


def traced(
    mode: str = "train", store: VariableStore | None = None, function: Any = model_fn
) -> Trace:
    """The model as the engine has it, with no Estimator around it."""
    features = {"x": tf.TensorSpec([None])}
    return trace_model(
        function,
        mode,
        (features, None if mode == "infer" else tf.TensorSpec([None])),
        store or VariableStore(),
        seed=1,
        create_global_step=v1.train.create_global_step,
    )


def checkpoint_steps(model_dir: str | Path) -> list[int]:
    """The steps of the checkpoints that are there."""
    names = (re.fullmatch(r"model\.ckpt-(\d+)\.index", name) for name in os.listdir(model_dir))
    return sorted(int(match[1]) for match in names if match)
