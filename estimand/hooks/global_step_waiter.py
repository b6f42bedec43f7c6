"""Delaying a worker until others have made some steps."""

from __future__ import annotations

import logging
import math
import time

import tensorflow as tf

from estimand.engine.hook_calls.cadence import NEVER
from estimand.hooks.base import LoopHook

_log = logging.getLogger("tensorflow")
_POLL_SECS = 0.5
_REPORT_SECS = 60.0
# How long a step kept by another process may stand still before waiting is given up.
_PATIENCE_SECS = 600.0


class GlobalStepWaiterHook(LoopHook):
    """Waits, before the first step, until other processes have brought the global step so far.

    Where no other process can move it, which is the case unless it lives on a parameter server,
    waiting would never end: the hook then says so once and lets training start.

    >>> from estimand.hooks import GlobalStepWaiterHook
    >>> hook = GlobalStepWaiterHook(wait_until_step=0)  # does not wait

    Args:
      wait_until_step: the global step to wait for.
    """

    def __init__(self, wait_until_step: int) -> None:
        self._wait_until_step = wait_until_step
        self._worker_is_started = False
        self._look(NEVER)

    def begin(self) -> None:
        super().begin()
        self._worker_is_started = False
        self._find_global_step()

    def after_create_session(
        self, session: tf.compat.v1.Session, coord: tf.compat.v1.train.Coordinator
    ) -> None:
        if self._loop is not None:
            self._wait(session)

    def before_run(self, run_context: tf.compat.v1.train.SessionRunContext) -> None:
        self._wait(run_context.session)

    def _wait(self, session: tf.compat.v1.Session) -> None:
        if not self._worker_is_started and self._wait_until_step > 0:
            _log.info("Waiting for global step %d before starting training.", self._wait_until_step)
            self._poll(session, self._patience())
        self._worker_is_started = True

    def _patience(self) -> float:
        if self._loop is None:
            return math.inf
        device = self._loop.trace.global_step.device or ""
        local = "/job:" not in device or "/job:localhost" in device
        return 0.0 if local else _PATIENCE_SECS

    def _poll(self, session: tf.compat.v1.Session, patience: float) -> None:
        step = self._step_now(session)
        moved = reported = time.monotonic()
        while step < self._wait_until_step:
            now = time.monotonic()
            if now - moved >= patience:
                _log.warning(
                    "GlobalStepWaiterHook: no other process advances the global step (it is %d, "
                    "waited for: %d). Training starts now.",
                    step,
                    self._wait_until_step,
                )
                return
            if now - reported >= _REPORT_SECS:
                reported = now
                _log.info(
                    "Waiting for global step %d before starting training. Current step is %d.",
                    self._wait_until_step,
                    step,
                )
            time.sleep(_POLL_SECS)
            before, step = step, self._step_now(session)
            moved = moved if step == before else time.monotonic()
        _log.info("Done waiting.")
