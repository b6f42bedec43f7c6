"""How a `_TrainingExecutor` evaluates: it knows of an estimator only its public methods."""

from __future__ import annotations

import os
import time
from typing import Any, NamedTuple

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.spec import EvalSpec

GLOBAL_STEP = tf.compat.v1.GraphKeys.GLOBAL_STEP
_SECONDS_BETWEEN_WARNINGS = 600


class _EvalStatus:
    """How an evaluation went."""

    EVALUATED = "evaluated"
    MISSING_CHECKPOINT = "missing checkpoint"
    NO_NEW_CHECKPOINT = "no new checkpoint"


class _EvalResult(NamedTuple):
    status: str | None = None
    metrics: dict[str, Any] | None = None
    checkpoint_path: str | None = None


class _ContinuousEvalListener:
    """Told by an evaluator before and after each evaluation; `False` ends it."""

    def before_eval(self) -> bool:
        return True

    def after_eval(self, eval_result: _EvalResult) -> bool:
        del eval_result
        return True


class Evaluator:
    """Evaluates the newest checkpoint, once, and tells the exporters."""

    def __init__(self, estimator: Any, eval_spec: EvalSpec, max_steps: int | None) -> None:
        self._estimator = estimator
        self._spec = eval_spec
        self._max_steps = max_steps
        self._seen: str | None = None
        self._warned_at = 0.0

    def evaluate_and_export(self) -> tuple[_EvalResult, list[Any]]:
        path = self._estimator.latest_checkpoint()
        if not path:
            self._warn(
                "Estimator is not trained yet. Will start an evaluation when a checkpoint is ready."
            )
            return _EvalResult(_EvalStatus.MISSING_CHECKPOINT), []
        if path == self._seen:
            self._warn(
                "No new checkpoint ready for evaluation. Skip the current evaluation pass as "
                "evaluation results are expected to be same for the same checkpoint."
            )
            return _EvalResult(_EvalStatus.NO_NEW_CHECKPOINT), []
        metrics = self._estimator.evaluate(
            input_fn=self._spec.input_fn,
            steps=self._spec.steps,
            name=self._spec.name,
            checkpoint_path=path,
            hooks=self._spec.hooks,
        )
        _check_metrics(metrics)
        self._seen, self._warned_at = path, 0.0
        return _EvalResult(_EvalStatus.EVALUATED, metrics, path), self._export(metrics, path)

    def _export(self, metrics: dict[str, Any], path: str) -> list[Any]:
        final = bool(self._max_steps) and metrics[GLOBAL_STEP] >= self._max_steps
        base = os.path.join(tf.compat.as_str_any(self._estimator.model_dir), "export")
        return [
            exporter.export(
                estimator=self._estimator,
                export_path=os.path.join(base, tf.compat.as_str_any(exporter.name)),
                checkpoint_path=path,
                eval_result=metrics,
                is_the_final_export=final,
            )
            for exporter in self._spec.exporters
        ]

    def _warn(self, message: str) -> None:
        now = time.time()
        if now - self._warned_at > _SECONDS_BETWEEN_WARNINGS:
            tf_private.warn(message)
            self._warned_at = now


def _check_metrics(metrics: Any) -> None:
    if not metrics:
        raise ValueError("Internal error: `Estimator.evaluate` should never return empty metrics.")
    if not isinstance(metrics, dict):
        raise TypeError(f"`Estimator.evaluate` should return dict. Given {type(metrics)}.")
    if GLOBAL_STEP not in metrics:
        raise ValueError(
            "Internal error: `Estimator.evaluate` result should have `global_step` in result. "
            f"Given {metrics}"
        )


class NewCheckpointListener(tf.compat.v1.train.CheckpointSaverListener):
    """Has each new checkpoint evaluated, not more often than every so many seconds."""

    def __init__(
        self, evaluator: Evaluator, throttle_secs: float, listener: _ContinuousEvalListener
    ) -> None:
        self._evaluator = evaluator
        self._throttle_secs = throttle_secs
        self._listener = listener
        self.eval_result: _EvalResult | None = None
        self.export_results: list[Any] | None = None

    def begin(self) -> None:
        self._timer = tf_private.seconds_timer(self._throttle_secs)
        self._first = True

    def after_save(self, session: Any, global_step_value: Any) -> bool | None:
        del session
        if self._first:  # the checkpoint of the start
            self._first = False
            return None
        if not self._listener.before_eval():
            tf_private.inform("Exiting training and evaluation loop, as requested by before_eval.")
            return True
        if not self._timer.should_trigger_for_step(global_step_value):
            tf_private.inform(
                "Skip the current checkpoint eval due to throttle secs (%s secs).",
                self._throttle_secs,
            )
            return None
        self._evaluate(global_step_value)
        return self._asked_to_stop()

    def end(self, session: Any, global_step_value: Any) -> None:
        """Evaluate the last step, unless that has been done."""
        del session
        if global_step_value != self._timer.last_triggered_step() and self._listener.before_eval():
            self._evaluate(global_step_value)
            self._asked_to_stop()

    def _evaluate(self, global_step: Any) -> None:
        self._timer.update_last_triggered_step(global_step)
        self.eval_result, self.export_results = self._evaluator.evaluate_and_export()
        if self.eval_result.status != _EvalStatus.EVALUATED:
            raise RuntimeError(
                "There was no new checkpoint after the training. "
                f"Eval status: {self.eval_result.status}"
            )

    def _asked_to_stop(self) -> bool | None:
        assert self.eval_result is not None
        if self._listener.after_eval(self.eval_result):
            return None
        tf_private.inform("Exiting training and evaluation loop, as requested by after_eval.")
        return True
