"""Stopping when an evaluation metric says so.

The metric is read from the event files that evaluations leave, so it does not matter which
process wrote them. A decision to stop is left in `model_dir/stopped.json`: an evaluator in
another process ends by it, too.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.core.errors import ConfigError, SpecTypeError
from estimand.core.handles import EstimatorHandle
from estimand.engine.checkpoints.api import checkpoint_step, latest_checkpoint
from estimand.engine.hook_calls.cadence import Cadence
from estimand.engine.hook_calls.runner import asks_the_same_earlier
from estimand.hooks import stop_record
from estimand.hooks.base import LoopHook
from estimand.hooks.eval_metrics import EvalMetrics, read_eval_metrics
from estimand.hooks.stop_at_step import StopAtStepHook
from estimand.hooks.stopping_criteria import Criterion, NoImprovement, Threshold

__all__ = [
    "EarlyStoppingHook",
    "make_early_stopping_hook",
    "make_stop_at_checkpoint_step_hook",
    "read_eval_metrics",
    "stop_if_higher_hook",
    "stop_if_lower_hook",
    "stop_if_no_decrease_hook",
    "stop_if_no_increase_hook",
]

_train = tf.compat.v1.train
_log = logging.getLogger("tensorflow")
_SECONDS_BETWEEN_LOOKS_FOR_THE_RECORD = 5.0


def make_early_stopping_hook(
    estimator: EstimatorHandle,
    should_stop_fn: Callable[[], Any],
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> LoopHook:
    """A hook that stops training when `should_stop_fn()` is true.

    Args:
      estimator: the estimator to be trained.
      should_stop_fn: takes nothing, returns whether to stop; a string is taken for the reason.
      run_every_secs: ask it every so many seconds; or
      run_every_steps: ask it every so many steps (then pass `run_every_secs=None`).

    >>> import estimand as est
    >>> estimator = est.Estimator(lambda features, labels, mode: None, model_dir="unused")
    >>> hook = est.experimental.make_early_stopping_hook(
    ...     estimator, lambda: False, run_every_secs=None, run_every_steps=100)
    """
    _check_estimator(estimator)
    if run_every_secs is not None and run_every_steps is not None:
        raise ConfigError(
            "Only one of `run_every_secs` and `run_every_steps` must be set. Got "
            f"run_every_secs={run_every_secs} and run_every_steps={run_every_steps}; to count "
            f"steps, pass run_every_secs=None, run_every_steps={run_every_steps}."
        )
    if not callable(should_stop_fn):
        raise SpecTypeError(f"`should_stop_fn` must be callable. Got: {should_stop_fn!r}.")
    if not estimator.config.is_chief:
        return _FollowTheChiefHook(estimator.model_dir)
    return EarlyStoppingHook(
        estimator.model_dir,
        should_stop_fn,
        run_every_secs=run_every_secs,
        run_every_steps=run_every_steps,
    )


def stop_if_higher_hook(
    estimator: EstimatorHandle,
    metric_name: str,
    threshold: float,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> LoopHook:
    """A hook that stops training when a metric has been above `threshold`.

    Args:
      estimator: the estimator to be trained.
      metric_name: the key of the metric in the results of `evaluate`, such as "accuracy".
      threshold: the value to be passed.
      eval_dir: where the event files are; `estimator.eval_dir()` by default. For a named
        `EvalSpec`, pass `estimator.eval_dir(name)`.
      min_steps: evaluations at earlier steps do not count.
      run_every_secs: look every so many seconds; or
      run_every_steps: look every so many steps (then pass `run_every_secs=None`). After an
        evaluation in the same process it looks in any case.

    >>> import estimand as est
    >>> line = est.LinearRegressor([est.feature_column.numeric_column("x")])
    >>> hook = est.experimental.stop_if_higher_hook(line, "accuracy", 0.95)
    """
    criterion = Threshold(_metrics(estimator, eval_dir), metric_name, min_steps, threshold, 1)
    return make_early_stopping_hook(estimator, criterion, run_every_secs, run_every_steps)


def stop_if_lower_hook(
    estimator: EstimatorHandle,
    metric_name: str,
    threshold: float,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
) -> LoopHook:
    """A hook that stops training when a metric has been below `threshold`.

    The arguments are those of `stop_if_higher_hook`.

    >>> import estimand as est
    >>> line = est.LinearRegressor([est.feature_column.numeric_column("x")])
    >>> hook = est.experimental.stop_if_lower_hook(line, "loss", 0.05)
    """
    criterion = Threshold(_metrics(estimator, eval_dir), metric_name, min_steps, threshold, -1)
    return make_early_stopping_hook(estimator, criterion, run_every_secs, run_every_steps)


def stop_if_no_increase_hook(
    estimator: EstimatorHandle,
    metric_name: str,
    max_steps_without_increase: int,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
    *,
    min_delta: float = 0.0,
) -> LoopHook:
    """A hook that stops training when a metric has not increased for so many steps.

    An increase is a new highest value, by more than `min_delta`. The other arguments are those
    of `stop_if_higher_hook`.

    >>> import estimand as est
    >>> line = est.LinearRegressor([est.feature_column.numeric_column("x")])
    >>> hook = est.experimental.stop_if_no_increase_hook(line, "auc", 1_000)
    """
    criterion = NoImprovement(
        _metrics(estimator, eval_dir),
        metric_name,
        min_steps,
        max_steps_without_increase,
        _checked_delta(min_delta),
        1,
    )
    return make_early_stopping_hook(estimator, criterion, run_every_secs, run_every_steps)


def stop_if_no_decrease_hook(
    estimator: EstimatorHandle,
    metric_name: str,
    max_steps_without_decrease: int,
    eval_dir: str | None = None,
    min_steps: int = 0,
    run_every_secs: float | None = 60,
    run_every_steps: int | None = None,
    *,
    min_delta: float = 0.0,
) -> LoopHook:
    """A hook that stops training when a metric has not decreased for so many steps.

    A decrease is a new lowest value, by more than `min_delta`. The other arguments are those of
    `stop_if_higher_hook`.

    >>> import estimand as est
    >>> estimator = est.Estimator(lambda features, labels, mode: None, model_dir="unused")
    >>> hook = est.experimental.stop_if_no_decrease_hook(estimator, "loss", 1000)
    """
    criterion = NoImprovement(
        _metrics(estimator, eval_dir),
        metric_name,
        min_steps,
        max_steps_without_decrease,
        _checked_delta(min_delta),
        -1,
    )
    return make_early_stopping_hook(estimator, criterion, run_every_secs, run_every_steps)


def make_stop_at_checkpoint_step_hook(
    estimator: EstimatorHandle, last_step: int, wait_after_file_check_secs: float = 30
) -> LoopHook:
    """A hook that stops the chief at `last_step`, and others once there is a checkpoint of it.

    So workers go on helping until the last checkpoint is written.

    Args:
      estimator: the one that is trained.
      last_step: the global step to stop at.
      wait_after_file_check_secs: seconds between two looks.

    >>> import estimand as est
    >>> line = est.LinearRegressor([est.feature_column.numeric_column("x")])
    >>> hook = make_stop_at_checkpoint_step_hook(line, last_step=1000)
    """
    if last_step is None:
        raise ConfigError("last_step must be specified. Pass the global step to stop at.")
    if estimator.config.is_chief:
        return StopAtStepHook(last_step=last_step)
    return _StopAtCheckpointHook(estimator.model_dir, last_step, wait_after_file_check_secs)


class EarlyStoppingHook(LoopHook):
    """Asks a function every so often whether to stop; made by `make_early_stopping_hook`.

    Args:
      model_dir: of the estimator, where the decision is left.
      should_stop_fn: takes nothing, says whether to stop.
      run_every_secs: how often to look.
      run_every_steps: the same in steps.
    """

    def __init__(
        self,
        model_dir: str,
        should_stop_fn: Callable[[], Any],
        *,
        run_every_secs: float | None,
        run_every_steps: int | None,
    ) -> None:
        self._model_dir = model_dir
        self._should_stop_fn = should_stop_fn
        self._look_every(
            steps=run_every_steps,
            secs=run_every_secs,
            names=("run_every_steps", "run_every_secs"),
            aligned=True,  # with the evaluations, right after which it looks
        )
        self.reason: str | None = None

    def wants_to_stop(self) -> bool:
        """Ask the function now, whatever the time; `reason` has its answer."""
        answer = self._should_stop_fn()
        self.reason = None
        if answer:
            self.reason = answer if isinstance(answer, str) else "should_stop_fn returned True"
        return self.reason is not None

    def evaluated(self, step: int) -> bool:
        """There are new results: True if they say to stop, which is then under way."""
        if not isinstance(self._should_stop_fn, Criterion):
            return False  # a user's function is asked as often as the user said
        self._should_stop_fn.warn_if_blind()
        return self._stop_if_wanted(step)

    def begin(self) -> None:
        super().begin()
        self.reason = None
        self._find_global_step()

    def after_create_session(
        self, session: tf.compat.v1.Session, coord: tf.compat.v1.train.Coordinator
    ) -> None:
        record = stop_record.read(self._model_dir)
        if record is None:
            return
        here = self._loop is not None and record.step == self._step_now(session)
        if here and self.wants_to_stop():  # also by today's criterion
            self._loop.request_stop(f"stopped early before: {self.reason}")
            return
        stop_record.remove(self._model_dir)

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
        step = self._step_now(run_context.session)
        if not self._called_when_due(run_context.session):
            if not self._timer.should_trigger_for_step(step):
                return
            self._timer.update_last_triggered_step(step)
        if self._stop_if_wanted(step):
            run_context.request_stop()

    def end(self, session: tf.compat.v1.Session) -> None:
        if self.reason is not None:
            # Again, with the step at which training really ended.
            step = self._step_now(session)
            stop_record.write(self._model_dir, step=step, reason=self.reason)
        elif isinstance(self._should_stop_fn, Criterion):
            self._should_stop_fn.warn_if_blind()

    def _stop_if_wanted(self, step: int) -> bool:
        if self.reason is None and not self.wants_to_stop():
            return False
        assert self.reason is not None
        _log.info("Requesting early stopping at global step %d: %s", step, self.reason)
        stop_record.write(self._model_dir, step=step, reason=self.reason)
        if self._loop is not None:
            self._loop.request_stop(self.reason)
        return True


class _FollowTheChiefHook(LoopHook):
    """In a process that does not decide: stops when the record of the chief appears."""

    def __init__(self, model_dir: str) -> None:
        self._model_dir = model_dir
        self._known: stop_record.StopRecord | None = None
        self._look(Cadence(secs=_SECONDS_BETWEEN_LOOKS_FOR_THE_RECORD))

    def begin(self) -> None:
        super().begin()
        self._known = stop_record.read(self._model_dir)  # of an earlier run

    def after_run(
        self,
        run_context: tf.compat.v1.train.SessionRunContext,
        run_values: tf.compat.v1.train.SessionRunValues,
    ) -> None:
        record = stop_record.read(self._model_dir)
        if record is not None and record != self._known:
            _log.info("Early stopping requested, suspending run: %s", record.reason)
            run_context.request_stop()


class _StopAtCheckpointHook(LoopHook):
    """Stops once the checkpoint of a step is there."""

    def __init__(self, model_dir: str, last_step: int, wait_secs: float = 30) -> None:
        self._model_dir = model_dir
        self._last_step = last_step
        self._wait_secs = wait_secs

    def begin(self) -> None:
        super().begin()
        self._find_global_step()

    def before_run(self, run_context: tf.compat.v1.train.SessionRunContext) -> Any:
        return _train.SessionRunArgs(self._global_step_tensor)

    def after_run(
        self,
        run_context: tf.compat.v1.train.SessionRunContext,
        run_values: tf.compat.v1.train.SessionRunValues,
    ) -> None:
        if run_values.results + 1 < self._last_step:
            return
        if self._step_now(run_context.session) < self._last_step:
            return
        newest = latest_checkpoint(self._model_dir)
        if newest is not None and checkpoint_step(newest) >= self._last_step:
            run_context.request_stop()
        else:  # let the file system breathe
            time.sleep(self._wait_secs)


def _metrics(estimator: EstimatorHandle, eval_dir: str | None) -> EvalMetrics:
    _check_estimator(estimator)
    return EvalMetrics(eval_dir if eval_dir is not None else estimator.eval_dir())


def _check_estimator(estimator: EstimatorHandle) -> None:
    # By its shape: the class is of a higher layer.
    wanted = ("eval_dir", "config", "model_dir", "train")
    if isinstance(estimator, type) or not all(hasattr(estimator, name) for name in wanted):
        raise SpecTypeError(
            f"`estimator` must have type `tf.estimator.Estimator`. Got: {type(estimator)}. "
            "Pass the estimator that is going to be trained."
        )


def _checked_delta(min_delta: float) -> float:
    if min_delta < 0:
        raise ConfigError(
            f"min_delta must not be negative, got {min_delta}: it is by how much a value has to "
            "be better to count."
        )
    return min_delta
