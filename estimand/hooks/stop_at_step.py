"""Stopping at a step."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.core.errors import ConfigError
from estimand.engine.hook_calls.cadence import NEVER
from estimand.engine.hook_calls.runner import RunningLoop
from estimand.hooks.base import LoopHook

_train = tf.compat.v1.train


class StopAtStepHook(LoopHook):
    """Stops training after so many steps, or at a given global step, exactly.

    >>> from estimand.hooks import StopAtStepHook
    >>> StopAtStepHook(last_step=1000).stop_step
    1000

    Args:
      num_steps: how many steps to train, counted from the start of each run.
      last_step: the global step at which to stop.
    """

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        if num_steps is None and last_step is None:
            raise ConfigError(
                "One of num_steps or last_step must be specified. Write "
                "StopAtStepHook(num_steps=100) for 100 more steps, or "
                "StopAtStepHook(last_step=100) to stop at step 100."
            )
        if num_steps is not None and last_step is not None:
            raise ConfigError(
                "Only one of num_steps or last_step can be specified. "
                f"Got num_steps={num_steps} and last_step={last_step}; drop one."
            )
        self._num_steps = num_steps
        self._last_step = last_step
        # No need to look: the loop reads `stop_step` and makes its blocks end there.
        self._look(NEVER)

    @property
    def stop_step(self) -> int | None:
        """The global step to stop at; None until the run has begun, if `num_steps` was given."""
        return self._last_step

    def bind(self, loop: RunningLoop) -> None:
        super().bind(loop)
        if self._num_steps is not None:
            self._last_step = None

    def begin(self) -> None:
        super().begin()
        self._find_global_step()

    def after_create_session(
        self, session: tf.compat.v1.Session, coord: tf.compat.v1.train.Coordinator
    ) -> None:
        # Only once per run: where a session is made anew after a fault, the target stays.
        if self._last_step is None:
            assert self._num_steps is not None
            self._last_step = self._step_now(session) + self._num_steps

    def before_run(self, run_context: tf.compat.v1.train.SessionRunContext) -> Any:
        return _train.SessionRunArgs(self._global_step_tensor)

    def after_run(
        self,
        run_context: tf.compat.v1.train.SessionRunContext,
        run_values: tf.compat.v1.train.SessionRunValues,
    ) -> None:
        # What was fetched is the step before the update.
        last_step = self._last_step
        assert last_step is not None
        if run_values.results + 1 >= last_step and self._step_now(run_context.session) >= last_step:
            run_context.request_stop()
