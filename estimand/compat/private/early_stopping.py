"""The hooks of `tensorflow_estimator.python.estimator.early_stopping`, for sessions of TensorFlow.

They signal through a variable, as `tf.estimator` did: the chief's hook sets it, those of workers
look at it. Estimators of Estimand stop by `estimand.hooks.early_stopping`, which needs neither.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.hooks.early_stopping import _StopAtCheckpointHook

_v1 = tf.compat.v1
_SCOPE, _NAME = "signal_early_stopping", "STOP"


def _get_or_create_stop_var() -> tf.Variable:
    with _v1.variable_scope(_SCOPE, reuse=_v1.AUTO_REUSE):
        return _v1.get_variable(
            _NAME,
            shape=[],
            dtype=tf.bool,
            initializer=_v1.constant_initializer(False),
            collections=[_v1.GraphKeys.GLOBAL_VARIABLES],
            trainable=False,
        )


class _StopOnPredicateHook(tf.compat.v1.train.SessionRunHook):
    """Asks a function every so often, sets the variable and stops when it says so."""

    def __init__(
        self,
        should_stop_fn: Callable[[], Any],
        run_every_secs: float | None = 60,
        run_every_steps: int | None = None,
    ) -> None:
        if not callable(should_stop_fn):
            raise TypeError("`should_stop_fn` must be callable.")
        self._should_stop_fn = should_stop_fn
        self._timer = _v1.train.SecondOrStepTimer(
            every_secs=run_every_secs, every_steps=run_every_steps
        )

    def begin(self) -> None:
        self._global_step = _v1.train.get_global_step()
        self._stop_var = _get_or_create_stop_var()
        self._stop_op = _v1.assign(self._stop_var, True)

    def before_run(self, run_context: Any) -> Any:
        del run_context
        return _v1.train.SessionRunArgs(self._global_step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        step = run_values.results
        if not self._timer.should_trigger_for_step(step):
            return
        self._timer.update_last_triggered_step(step)
        if self._should_stop_fn():
            _v1.logging.info("Requesting early stopping at global step %d", step)
            run_context.session.run(self._stop_op)
            run_context.request_stop()


class _CheckForStoppingHook(tf.compat.v1.train.SessionRunHook):
    """Stops once the variable is set."""

    def begin(self) -> None:
        self._stop_var = _get_or_create_stop_var()

    def before_run(self, run_context: Any) -> Any:
        del run_context
        return _v1.train.SessionRunArgs(self._stop_var)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        if run_values.results:
            _v1.logging.info("Early stopping requested, suspending run.")
            run_context.request_stop()


def make_stop_at_checkpoint_step_hook(
    estimator: Any, last_step: int, wait_after_file_check_secs: float = 30
) -> Any:
    """Stops a chief at a step, and workers when its checkpoint of that step is there."""
    if estimator.config.is_chief:
        return _v1.train.StopAtStepHook(last_step=last_step)
    return _StopAtCheckpointHook(estimator.model_dir, last_step, wait_after_file_check_secs)
