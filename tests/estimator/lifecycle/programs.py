"""Programs for child processes."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import tensorflow as tf

import estimand as est
from tests.estimator.lifecycle import line


class _Pacing(est.SessionRunHook):
    """Makes steps last long enough for somebody to interfere."""

    cadence = est.every(steps=1)

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def after_run(self, run_context: Any, run_values: Any) -> None:
        time.sleep(self._seconds)


def train_and_evaluate(
    model_dir: str, max_steps: int, pause: float = 0.0, dies_evaluating: int | None = None
) -> None:
    """The whole program; with `dies_evaluating`, it is killed when that step is evaluated."""

    def eval_input_fn() -> tf.data.Dataset:
        if dies_evaluating is not None and _step_being_evaluated(model_dir) == dies_evaluating:
            os.kill(os.getpid(), 9)
        return line.eval_input_fn()

    hooks = [_Pacing(pause)] if pause else []
    est.train_and_evaluate(
        line.estimator(model_dir),
        line.train_spec(max_steps, hooks=hooks),
        line.eval_spec()._replace(input_fn=eval_input_fn),
    )


def _step_being_evaluated(model_dir: str) -> int:
    """The newest checkpoint, waited for: it is written while it is evaluated."""
    time.sleep(0.3)
    return max(int(p.stem.rpartition("-")[2]) for p in Path(model_dir).glob("model.ckpt-*.index")
               if p.stem.count(".") == 1)  # fmt: skip
