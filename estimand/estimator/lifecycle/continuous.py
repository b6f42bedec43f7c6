"""Following a `model_dir` that another process trains: evaluate new checkpoints as they come."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from estimand.core.errors import CheckpointError
from estimand.core.handles import EstimatorHandle
from estimand.estimator.lifecycle.evaluator import SpecEvaluator, step_of
from estimand.hooks import stop_record

_log = logging.getLogger("tensorflow")

_THROTTLE_OF_0 = (
    "EvalSpec.throttle_secs is set as 0. This might overload the job before finding (next) new "
    "checkpoint: it is looked for all the time. Write EvalSpec(throttle_secs=60), or so."
)
_SECONDS_BETWEEN_LOOKS = 2.0
_SECONDS_BETWEEN_WARNINGS = 600.0
_SECONDS_TO_TAKE_AN_OLD_RECORD_BACK = 60.0

Predicate = Callable[[dict[str, Any] | None], bool]


def evaluate_continuously(
    estimator: EstimatorHandle,
    evaluators: Sequence[SpecEvaluator],
    *,
    max_steps: int | None,
    predicate: Predicate | None = None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Evaluate the newest checkpoint again and again, until training has ended.

    It has when a checkpoint reaches `max_steps`, or the one is evaluated that `stopped.json` in
    model_dir tells of. A checkpoint that was evaluated before is not evaluated again.

    Args:
      estimator: its model_dir is followed.
      evaluators: what to do with a new checkpoint; of their specs, `start_delay_secs` and
        `throttle_secs` say how long to wait.
      max_steps: the step of the last checkpoint; None if that is not known.
      predicate: called with the last metrics (None at first); False ends it.
      clock: seconds, increasing.
      sleep: waits for so many seconds.
    """
    _Following(estimator, evaluators, max_steps, predicate, clock, sleep).run()


@dataclass
class _Following:
    estimator: EstimatorHandle
    evaluators: Sequence[SpecEvaluator]
    max_steps: int | None
    predicate: Predicate | None
    clock: Callable[[], float]
    sleep: Callable[[float], None]
    seen: str | None = None
    last_warning: float | None = None
    done: dict[int, set[str]] = field(default_factory=dict)
    began: float = 0.0
    old_record: stop_record.StopRecord | None = None

    def run(self) -> None:
        self.began = self.clock()
        self.old_record = stop_record.read(self.estimator.model_dir)
        delay = min(evaluator.spec.start_delay_secs for evaluator in self.evaluators)
        if delay:
            _log.info("Waiting %f secs before starting eval.", delay)
        self._wait(delay)
        throttle, warned = min(evaluator.spec.throttle_secs for evaluator in self.evaluators), False
        while self.predicate is None or self.predicate(self.evaluators[0].metrics):
            began = self.clock()
            path = self.estimator.latest_checkpoint()
            if path is None or (path == self.seen and not self._is_last(step_of(path))):
                self._warn_that_nothing_is_new(path)
                if throttle == 0 and not warned:
                    warned = True
                    _log.warning(_THROTTLE_OF_0)
            elif self._evaluate(path) and self._is_last(step_of(path)):
                _log.info(
                    "Exiting evaluation, global_step=%s >= train max_steps=%s%s",
                    step_of(path),
                    self.max_steps,
                    self._why_stopped(),
                )
                return
            self._wait(max(throttle - (self.clock() - began), _SECONDS_BETWEEN_LOOKS))

    def _evaluate(self, path: str) -> bool:
        """Evaluate and export; False if the checkpoint was removed meanwhile."""
        for index, evaluator in enumerate(self.evaluators):
            if index not in self.done:
                self.done[index] = {
                    e.checkpoint for e in evaluator.earlier_evaluations(step_of(path))
                }
            last = self._is_last(step_of(path))
            if os.path.basename(path) in self.done[index] and not last:
                _log.info("%s was evaluated before.", path)
                continue
            try:
                if evaluator.path != path:  # else it was not known, then, that it is the last
                    evaluator.evaluate(path)
            except (CheckpointError, OSError, tf.errors.NotFoundError) as error:
                if os.path.exists(f"{path}.index"):
                    raise
                _log.warning(
                    "%s was removed before it could be evaluated (%s). A greater "
                    "RunConfig.keep_checkpoint_max keeps them longer.",
                    path,
                    error,
                )
                return False
            evaluator.export(final=self._is_last(step_of(path)))
        self.seen = path
        return True

    def _is_last(self, step: int) -> bool:
        if self.max_steps is not None and step >= self.max_steps:
            return True
        record = self._record()
        return record is not None and step >= record.step

    def _record(self) -> stop_record.StopRecord | None:
        """What the training has left at its end.

        If it is there from the start, the training may be about to go on, and the record to be
        taken back: that process may have been started at the same time as this one.
        """
        record = stop_record.read(self.estimator.model_dir)
        fresh_start = self.clock() - self.began < _SECONDS_TO_TAKE_AN_OLD_RECORD_BACK
        return None if fresh_start and record == self.old_record else record

    def _why_stopped(self) -> str:
        record = self._record()
        return (
            "" if record is None else f"; training stopped at step {record.step}: {record.reason}"
        )

    def _wait(self, seconds: float) -> None:
        """Wait, but not once the last checkpoint is there."""
        until = self.clock() + seconds
        while (left := until - self.clock()) > 0:
            path = self.estimator.latest_checkpoint()
            if path is not None and self._is_last(step_of(path)):
                return
            self.sleep(min(left, _SECONDS_BETWEEN_LOOKS))

    def _warn_that_nothing_is_new(self, path: str | None) -> None:
        now = self.clock()
        if self.last_warning is not None and now - self.last_warning < _SECONDS_BETWEEN_WARNINGS:
            return
        self.last_warning = now
        if path is None:
            _log.warning(
                "Estimator is not trained yet: there is no checkpoint in %s. Will start an "
                "evaluation when a checkpoint is ready.",
                self.estimator.model_dir,
            )
        else:
            _log.warning(
                "No new checkpoint ready for evaluation. Skip the current evaluation pass as "
                "evaluation results are expected to be same for the same checkpoint (%s).",
                path,
            )
