"""Parts of `tensorflow_estimator.python.estimator.training` that schedulers in the wild extend."""

from __future__ import annotations

import json
import logging
import os
import time
from typing import Any, NamedTuple

import tensorflow as tf

from estimand.core import spec, spec_checks
from estimand.core.spec import EvalSpec, TrainSpec
from estimand.estimator.lifecycle import roles
from estimand.estimator.lifecycle.continuous import evaluate_continuously
from estimand.estimator.lifecycle.evaluator import evaluators_of
from estimand.estimator.lifecycle.local import run_local

_MAX_DELAY_SECS = 60
_DELAY_SECS_PER_WORKER = 5
_TF_CONFIG_ENV = "TF_CONFIG"
_ENVIRONMENT_KEY = "environment"
_ENVIRONMENT_GOOGLE_VALUE = "google"
_TRAINER_JOBS = ("chief", "worker")

_log = logging.getLogger("tensorflow")


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


class _TrainingExecutor:
    """`train_and_evaluate` taken apart by role, for schedulers that choose the role themselves."""

    def __init__(
        self,
        estimator: Any,
        train_spec: TrainSpec,
        eval_spec: EvalSpec,
        train_hooks: Any = None,
        continuous_eval_listener: _ContinuousEvalListener | None = None,
    ) -> None:
        if not hasattr(estimator, "train"):
            raise TypeError("`estimator` must have type `tf.estimator.Estimator`.")
        if not isinstance(train_spec, TrainSpec):
            raise TypeError("`train_spec` must have type `tf.estimator.TrainSpec`.")
        if eval_spec and not isinstance(eval_spec, EvalSpec):
            raise TypeError(
                "`eval_spec` must be either `None` or have type `tf.estimator.EvalSpec`. "
                f"Got: {type(eval_spec)}"
            )
        if continuous_eval_listener and not isinstance(
            continuous_eval_listener, _ContinuousEvalListener
        ):
            raise TypeError("`continuous_eval_listener` must have type `_ContinuousEvalListener`.")
        self._estimator = estimator
        self._train_spec = train_spec
        self._eval_spec = eval_spec
        self._train_hooks = _validate_hooks(train_hooks)
        self._listener = continuous_eval_listener or _ContinuousEvalListener()

    @property
    def estimator(self) -> Any:
        return self._estimator

    def run(self) -> Any:
        """Play the role that TF_CONFIG gives this process; locally, all of them."""
        config = self._estimator.config
        if not config.cluster_spec and config.task_type != roles.EVALUATOR:
            return self.run_local()
        return getattr(self, f"run_{self._checked_role(config)}")()

    def run_local(self) -> Any:
        return run_local(self._estimator, self._with_hooks(), self._eval_spec)

    def run_chief(self) -> Any:
        return roles.run_chief(self._estimator, self._with_hooks(), self._eval_spec)

    def run_worker(self) -> Any:
        return roles.run_worker(self._estimator, self._with_hooks(), self._eval_spec)

    def run_master(self) -> Any:
        _assert_eval_spec(self._eval_spec)
        return roles.run_master(self._estimator, self._with_hooks(), self._eval_spec)

    def run_ps(self) -> Any:
        return roles.run_ps(self._estimator, self._train_spec, self._eval_spec)

    def run_evaluator(self) -> None:
        """Evaluate new checkpoints until training has ended or the listener says so."""
        _assert_eval_spec(self._eval_spec)
        evaluate_continuously(
            self._estimator,
            evaluators_of(self._estimator, self._eval_spec),
            max_steps=self._train_spec.max_steps,
            predicate=self._ask_listener,
        )

    def _ask_listener(self, metrics: dict[str, Any] | None) -> bool:
        if metrics is not None:
            path = self._estimator.latest_checkpoint()
            result = _EvalResult(_EvalStatus.EVALUATED, metrics, path)
            if not self._listener.after_eval(result):
                _log.info("Exiting evaluation, as requested by _ContinuousEvalListener.after_eval.")
                return False
        if not self._listener.before_eval():
            _log.info("Exiting evaluation, as requested by _ContinuousEvalListener.before_eval.")
            return False
        return True

    def _with_hooks(self) -> TrainSpec:
        hooks = (*self._train_spec.hooks, *self._train_hooks)
        return self._train_spec._replace(hooks=hooks) if self._train_hooks else self._train_spec

    @staticmethod
    def _checked_role(config: Any) -> str:
        roles.role(config)
        return config.task_type


class _StopAtSecsHook(tf.compat.v1.train.SessionRunHook):
    """Asks to stop so many seconds after the session began."""

    def __init__(self, stop_after_secs: float) -> None:
        self._seconds = stop_after_secs
        self._end: float | None = None

    def before_run(self, run_context: Any) -> None:
        del run_context
        if self._end is None:
            self._end = time.time() + self._seconds

    def after_run(self, run_context: Any, run_values: Any) -> None:
        del run_values
        if self._end is not None and time.time() >= self._end:
            run_context.request_stop()


def _assert_eval_spec(eval_spec: Any) -> None:
    if not isinstance(eval_spec, EvalSpec):
        raise TypeError(
            f"`eval_spec` must have type `tf.estimator.EvalSpec`. Got: {type(eval_spec)}"
        )


def _validate_input_fn(input_fn: Any) -> None:
    spec._callable(input_fn)


def _validate_hooks(hooks: Any) -> tuple[Any, ...]:
    return spec_checks.checked_hooks(hooks, spec._RUN_HOOKS)


def _validate_saving_listeners(saving_listeners: Any) -> tuple[Any, ...]:
    return spec_checks.checked_listeners(saving_listeners)


def _validate_exporters(exporters: Any) -> tuple[Any, ...]:
    return spec._checked_exporters(exporters)


def _is_google_env() -> bool:
    settings = json.loads(os.environ.get(_TF_CONFIG_ENV) or "{}")
    return settings.get(_ENVIRONMENT_KEY) == _ENVIRONMENT_GOOGLE_VALUE
