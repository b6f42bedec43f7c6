"""The model of these tests: a line through the origin, fitted by plain gradient descent.

Small enough to be recomputed with NumPy, so that numbers are checked against that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import estimand as est
from estimand.evaluation.checkpoints_to_evaluate import evaluations_in

X = np.linspace(-1, 1, 8, dtype=np.float32)[:, None]
Y = 3 * X
RATE = 0.1
ROWS_PER_BATCH = 2
SAVE_EVERY = 3


def train_input_fn() -> tf.data.Dataset:
    data = tf.data.Dataset.from_tensor_slices(({"x": X}, Y))
    return data.repeat().batch(ROWS_PER_BATCH)


def eval_input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices(({"x": X}, Y)).batch(4)


def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    w = tf.compat.v1.get_variable("w", [1, 1], initializer=tf.compat.v1.zeros_initializer())
    y = features["x"] @ w
    if mode == est.ModeKeys.PREDICT:
        return est.EstimatorSpec(mode, predictions={"y": y})
    loss = tf.reduce_mean(tf.square(y - labels))
    train_op = est.minimize(tf.compat.v1.train.GradientDescentOptimizer(RATE), loss)
    return est.EstimatorSpec(mode, predictions={"y": y}, loss=loss, train_op=train_op)


def weight_after(steps: int, rows_per_step: int = ROWS_PER_BATCH) -> float:
    w = 0.0
    for step in range(steps):
        rows = np.arange(rows_per_step) + step * rows_per_step
        x, y = X[rows % len(X), 0], Y[rows % len(X), 0]
        w -= RATE * float(np.mean(2 * (w * x - y) * x))
    return w


def loss_after(steps: int) -> float:
    """Mean over batches, which are of equal size, of the squared error."""
    return float(np.mean((weight_after(steps) * X - Y) ** 2))


def estimator(model_dir: Any, model: Callable[..., Any] = model_fn, **config: Any) -> est.Estimator:
    config = {"save_checkpoints_steps": SAVE_EVERY, **config}
    return est.Estimator(model, config=est.RunConfig(model_dir=str(model_dir), **config))


def train_spec(max_steps: int | None = 10, **more: Any) -> est.TrainSpec:
    return est.TrainSpec(train_input_fn, max_steps=max_steps, **more)


def eval_spec(**more: Any) -> est.EvalSpec:
    return est.EvalSpec(eval_input_fn, **{"steps": None, "throttle_secs": 0, **more})


def evaluated_steps(model: est.Estimator, name: str | None = None) -> list[int]:
    """The steps of the evaluations that the event files tell of."""
    return [one.step for one in evaluations_in(model.eval_dir(name))]


class RecordingExporter:
    """Has the shape of an Exporter, and remembers what it was called with."""

    def __init__(self, name: str = "recorder") -> None:
        self.name = name
        self.calls: list[dict[str, Any]] = []
        self.checkpoint_was_there: list[bool] = []

    def export(
        self,
        estimator: Any,
        export_path: str,
        checkpoint_path: str,
        eval_result: Any,
        is_the_final_export: bool,
    ) -> str:
        self.checkpoint_was_there.append(tf.io.gfile.exists(checkpoint_path + ".index"))
        self.calls.append(
            {
                "path": export_path,
                "checkpoint": checkpoint_path,
                "step": int(eval_result["global_step"]),
                "final": is_the_final_export,
            }
        )
        return f"export {len(self.calls)}"
