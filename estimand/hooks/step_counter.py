"""Steps per second."""

from __future__ import annotations

import logging
from typing import Any

import tensorflow as tf

from estimand.core.errors import ConfigError
from estimand.engine.hook_calls.runner import asks_the_same_earlier
from estimand.hooks.base import LoopHook
from estimand.hooks.event_file import EventFile

_train = tf.compat.v1.train
_log = logging.getLogger("tensorflow")


class StepCounterHook(LoopHook):
    """Logs how many steps run per second, and records it as `global_step/sec`.

    >>> from estimand.hooks import StepCounterHook
    >>> StepCounterHook(every_n_steps=500).cadence.steps
    500

    Args:
      every_n_steps: measure over so many steps.
      every_n_secs: measure over so many seconds; pass `every_n_steps=None` with it.
      output_dir: where to record it.
      summary_writer: a v1 FileWriter to record it with, instead of `output_dir`.
    """

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: tf.compat.v1.summary.FileWriter | None = None,
    ) -> None:
        if (every_n_steps is None) == (every_n_secs is None):
            raise ConfigError(
                "exactly one of every_n_steps and every_n_secs should be provided. "
                f"Got every_n_steps={every_n_steps}, every_n_secs={every_n_secs}; for seconds, "
                "write StepCounterHook(every_n_steps=None, every_n_secs=60)."
            )
        self._look_every(
            steps=every_n_steps, secs=every_n_secs, names=("every_n_steps", "every_n_secs")
        )
        self._given_writer = summary_writer
        self._summary_writer = summary_writer
        self._output_dir = output_dir
        self._summary_tag = "global_step/sec"
        self._steps_per_run = 1

    def begin(self) -> None:
        super().begin()
        if self._given_writer is None and self._output_dir:
            self._summary_writer = EventFile(self._output_dir)
        self._find_global_step()

    @asks_the_same_earlier
    def before_run(self, run_context: tf.compat.v1.train.SessionRunContext) -> Any:
        if self._called_when_due(run_context.session):
            return None
        return _train.SessionRunArgs(self._global_step_tensor)

    def after_run(
        self,
        run_context: tf.compat.v1.train.SessionRunContext,
        run_values: tf.compat.v1.train.SessionRunValues,
    ) -> None:
        if not self._called_when_due(run_context.session):
            # What was fetched is the step before the update; reading the new one costs a run.
            step = run_values.results + self._steps_per_run
            if not self._timer.should_trigger_for_step(step):
                return
        step = self._step_now(run_context.session)
        elapsed_secs, elapsed_steps = self._timer.update_last_triggered_step(step)
        if elapsed_secs:
            self._log_and_record(elapsed_steps, elapsed_secs, step)

    def _log_and_record(self, elapsed_steps: int, elapsed_time: float, global_step: int) -> None:
        steps_per_sec = elapsed_steps / elapsed_time
        _log.info("%s: %g", self._summary_tag, steps_per_sec)
        if self._summary_writer is not None:
            value = tf.compat.v1.Summary.Value(tag=self._summary_tag, simple_value=steps_per_sec)
            self._summary_writer.add_summary(tf.compat.v1.Summary(value=[value]), global_step)

    def _set_steps_per_run(self, steps_per_run: int) -> None:
        self._steps_per_run = steps_per_run
