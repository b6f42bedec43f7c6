"""Programs for child processes."""

from __future__ import annotations

import itertools
import os
import signal
import time
from typing import Any

import tensorflow as tf

import estimand as est
from estimand.engine.checkpoints.api import checkpoint_step, latest_checkpoint
from tests.estimator.lifecycle import line


class _Holds(est.SessionRunHook):
    """Says so, and stays in one step until somebody kills the program or tells it to end."""

    def __init__(self, step: int) -> None:
        self.cadence = est.every(steps=step, at_start=False)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        before = signal.getsignal(signal.SIGTERM)
        print("holds", flush=True)
        while signal.getsignal(signal.SIGTERM) == before:
            time.sleep(0.01)


def train_and_evaluate(
    model_dir: str,
    max_steps: int,
    holds_at: int | None = None,
    dies_evaluating: int | None = None,
) -> None:
    """The whole program. It stays in the step `holds_at`, and dies when the step
    `dies_evaluating` is evaluated, whose checkpoint is there."""
    evaluations = itertools.count(1)

    def eval_input_fn() -> tf.data.Dataset:
        step = next(evaluations) * line.SAVE_EVERY
        if step == dies_evaluating:
            while checkpoint_step(latest_checkpoint(model_dir) or "x-0") < step:
                time.sleep(0.01)  # it is written while it is evaluated
            os.kill(os.getpid(), signal.SIGKILL)
        return line.eval_input_fn()

    hooks = [_Holds(holds_at)] if holds_at else []
    est.train_and_evaluate(
        line.estimator(model_dir),
        line.train_spec(max_steps, hooks=hooks),
        line.eval_spec()._replace(input_fn=eval_input_fn),
    )
