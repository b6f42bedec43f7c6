"""Profiles for TensorBoard."""

from __future__ import annotations

import logging
from typing import Any

import tensorflow as tf

from estimand.hooks.base import LoopHook

_train = tf.compat.v1.train
_log = logging.getLogger("tensorflow")


class ProfilerHook(LoopHook):
    """Profiles a step every so many steps or seconds, for the Profile page of TensorBoard.

    Profiles are written to `output_dir/plugins/profile`. The first steps, which include building
    and compiling, are not profiled: the first profile comes one period after the start.

    >>> from estimand.hooks import ProfilerHook
    >>> ProfilerHook(save_steps=1000, output_dir="model").cadence.at_start
    False

    Args:
      save_steps: how many steps lie between two profiles.
      save_secs: how many seconds lie between two profiles.
      output_dir: where to write; the current directory if not given.
      show_dataflow: accepted for old code; a profile always holds the flow of data.
      show_memory: accepted for old code; a profile always holds the use of memory.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str = "",
        show_dataflow: bool = True,
        show_memory: bool = False,
    ) -> None:
        self._look_every(
            steps=save_steps, secs=save_secs, names=("save_steps", "save_secs"), at_start=False
        )
        self._output_dir = output_dir
        self._show_dataflow = show_dataflow
        self._show_memory = show_memory
        self._next_step: int | None = None
        self._profiling = False
        self._marked: Any = None  # what tells the profile where its step begins and ends
        self._warned = False

    def begin(self) -> None:
        super().begin()
        self._next_step = None
        self._stop()  # of an earlier run that ended with an exception
        self._find_global_step()

    def before_run(self, run_context: tf.compat.v1.train.SessionRunContext) -> Any:
        if self._called_when_due(run_context.session):
            self._start(self._step_now(run_context.session))
        elif self._next_step is not None and self._timer.should_trigger_for_step(self._next_step):
            self._start(self._next_step)
        # Also where nobody reads it: a step with something to fetch is run by itself. Of one in a
        # loop, TensorBoard does not find where it begins.
        return _train.SessionRunArgs(self._global_step_tensor)

    def after_run(
        self,
        run_context: tf.compat.v1.train.SessionRunContext,
        run_values: tf.compat.v1.train.SessionRunValues,
    ) -> None:
        profiled = self._profiling
        self._stop()
        if not self._called_when_due(run_context.session):
            step = int(run_values.results) + 1
            if profiled or self._next_step is None:
                self._timer.update_last_triggered_step(step)
            self._next_step = step + 1

    def end(self, session: tf.compat.v1.Session) -> None:
        # The input may have ended in the very step that was to be profiled.
        self._stop()

    def _start(self, step: int) -> None:
        try:
            tf.profiler.experimental.start(self._output_dir or ".")
        except tf.errors.AlreadyExistsError:
            if not self._warned:
                _log.warning(
                    "ProfilerHook does nothing while another profiler runs in this process; "
                    "there can be only one at a time."
                )
            self._warned = True
        else:
            self._profiling = True
            self._marked = tf.profiler.experimental.Trace("train", step_num=step, _r=1)
            self._marked.__enter__()

    def _stop(self) -> None:
        if self._profiling:
            self._profiling = False
            self._marked.__exit__(None, None, None)
            tf.profiler.experimental.stop()
