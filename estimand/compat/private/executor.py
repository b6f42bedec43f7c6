"""`_TrainingExecutor`: `train_and_evaluate` taken apart by role, for schedulers in the wild.

With an `estimand.Estimator` it does what `estimand.train_and_evaluate` does. Anything else that
answers to the same calls is taken for what it was in `tf.estimator`: it is told to train and to
evaluate by its public methods, and finds its peers through a server that is started before.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

import tensorflow as tf

from estimand.compat.private.executor_evaluation import (
    GLOBAL_STEP,
    Evaluator,
    NewCheckpointListener,
    _ContinuousEvalListener,
    _EvalResult,
    _EvalStatus,
)
from estimand.core import spec, spec_checks, tf_private
from estimand.core.errors import ConfigError
from estimand.core.spec import EvalSpec, TrainSpec
from estimand.estimator.estimator import Estimator
from estimand.estimator.lifecycle import roles
from estimand.estimator.lifecycle.continuous import evaluate_continuously
from estimand.estimator.lifecycle.evaluator import evaluators_of
from estimand.estimator.lifecycle.local import run_local

_MAX_DELAY_SECS = 60
_DELAY_SECS_PER_WORKER = 5
_TF_CONFIG_ENV = "TF_CONFIG"
_ENVIRONMENT_KEY = "environment"
_ENVIRONMENT_GOOGLE_VALUE = "google"
_TRAINER_JOBS = ("chief", "master", "worker")


class _TrainingExecutor:
    """One method for each role; `run` calls the one that TF_CONFIG gives this process."""

    def __init__(
        self,
        estimator: Any,
        train_spec: TrainSpec,
        eval_spec: EvalSpec | None,
        train_hooks: Any = None,
        continuous_eval_listener: _ContinuousEvalListener | None = None,
    ) -> None:
        _check(estimator, train_spec, eval_spec, continuous_eval_listener)
        self._estimator = estimator
        self._train_spec = train_spec
        self._eval_spec = eval_spec
        self._train_hooks = spec_checks.checked_hooks(train_hooks, spec._RUN_HOOKS)
        self._listens = continuous_eval_listener is not None
        self._listener = continuous_eval_listener or _ContinuousEvalListener()

    @property
    def estimator(self) -> Any:
        return self._estimator

    @property
    def _is_ours(self) -> bool:
        return issubclass(type(self._estimator), Estimator)

    def run(self) -> Any:
        """Play the role that TF_CONFIG gives this process; locally, all of them."""
        config = self._estimator.config
        if not config.cluster_spec and config.task_type != roles.EVALUATOR:
            return self.run_local()
        if not config.task_type:
            raise ConfigError(
                "`estimator.config` must have task_type set. This usually means TF_CONFIG "
                "environment is not set correctly."
            )
        if config.task_type == "local":
            raise ConfigError(
                "`task.type` in TF_CONFIG cannot be `local`. Leaving `cluster` and `task` "
                "properties in TF_CONFIG absent triggers train and evaluate `Estimator` locally."
            )
        return getattr(self, f"run_{self._playable(config.task_type)}")()

    def _playable(self, task_type: str) -> str:
        methods = [name for name in dir(self) if name.startswith("run_") and name != "run_local"]
        playable = [name[4:] for name in methods if callable(getattr(self, name))]
        if task_type not in playable:
            raise ConfigError(
                f"Task type {task_type} is not supported. Supported task types are {playable}"
            )
        return task_type

    def run_local(self) -> Any:
        if self._is_ours and not self._listens:
            return run_local(self._estimator, self._with_hooks(), self._checked_eval_spec())
        listener = self._checkpoint_listener()
        self._train([*_listeners(self._train_spec), listener])
        result = listener.eval_result or _EvalResult(_EvalStatus.MISSING_CHECKPOINT)
        return result.metrics, listener.export_results

    def run_chief(self) -> Any:
        if self._is_ours:
            return roles.run_chief(self._estimator, self._with_hooks(), self._eval_spec)
        return self._train_in_cluster(_listeners(self._train_spec))

    def run_worker(self) -> Any:
        if self._is_ours:
            return roles.run_worker(self._estimator, self._with_hooks(), self._eval_spec)
        return self._train_in_cluster(None)

    def run_master(self) -> Any:
        if self._is_ours:
            eval_spec = self._checked_eval_spec()
            return roles.run_master(self._estimator, self._with_hooks(), eval_spec)
        listeners = [*_listeners(self._train_spec), self._checkpoint_listener()]
        return self._train_in_cluster(listeners)

    def run_ps(self) -> Any:
        if self._is_ours:
            return roles.run_ps(self._estimator, self._train_spec, self._eval_spec)
        return self._start_std_server(self._estimator.config).join()

    def run_evaluator(self) -> None:
        """Evaluate new checkpoints until training has ended or the listener says so."""
        eval_spec = self._checked_eval_spec()
        if self._is_ours:
            evaluate_continuously(
                self._estimator,
                evaluators_of(self._estimator, eval_spec),
                max_steps=self._train_spec.max_steps,
                predicate=self._ask_listener,
            )
            return
        if eval_spec.start_delay_secs:
            tf_private.inform("Waiting %f secs before starting eval.", eval_spec.start_delay_secs)
            time.sleep(eval_spec.start_delay_secs)
        evaluator = Evaluator(self._estimator, eval_spec, self._train_spec.max_steps)
        while self._evaluate_once(evaluator, eval_spec.throttle_secs):
            pass

    # Training

    def _train_in_cluster(self, saving_listeners: Any) -> None:
        config = self._estimator.config
        alone = not config.master and _is_single_node(config)
        if not alone and not _is_google_env():
            self._start_std_server(config)
        if config.task_type == roles.WORKER:
            longest = config.experimental_max_worker_delay_secs
            longest = longest if isinstance(longest, int) else _MAX_DELAY_SECS
            delay = min(longest, (config.task_id + 1) * _DELAY_SECS_PER_WORKER)
            if delay > 0:  # so that workers do not all start at once
                tf_private.inform("Waiting %d secs before starting training.", delay)
                time.sleep(delay)
        self._train(saving_listeners)

    def _train(self, saving_listeners: Any) -> None:
        self._estimator.train(
            input_fn=self._train_spec.input_fn,
            max_steps=self._train_spec.max_steps,
            hooks=[*self._train_spec.hooks, *self._train_hooks],
            saving_listeners=saving_listeners,
        )

    def _start_std_server(self, config: Any) -> Any:
        if not (config.cluster_spec and config.task_type and config.master) or (
            config.task_id is None
        ):
            raise RuntimeError(
                "Could not start server; be sure to specify cluster_spec, master, task_type, and "
                "task_id in RunConfig or set the TF_CONFIG environment variable"
            )
        server = tf_private.std_server(
            config.cluster_spec,
            job_name=config.task_type,
            task_index=config.task_id,
            config=config.session_config or tf.compat.v1.ConfigProto(log_device_placement=False),
            start=False,
            protocol=config.protocol,
        )
        server.start()
        return server

    # Evaluating

    def _checkpoint_listener(self) -> NewCheckpointListener:
        eval_spec = self._checked_eval_spec()
        evaluator = Evaluator(self._estimator, eval_spec, self._train_spec.max_steps)
        return NewCheckpointListener(evaluator, eval_spec.throttle_secs, self._listener)

    def _evaluate_once(self, evaluator: Evaluator, throttle_secs: float) -> bool:
        """Evaluate if there is anything new, and wait; False to end."""
        began = time.time()
        if not self._listener.before_eval():
            tf_private.inform("Exiting evaluation, as requested by before_eval.")
            return False
        result, _ = evaluator.evaluate_and_export()
        if not self._listener.after_eval(result):
            tf_private.inform("Exiting evaluation, as requested by after_eval.")
            return False
        left = throttle_secs - (time.time() - began)
        if left > 0:
            tf_private.inform("Waiting %f secs before starting next eval run.", left)
            time.sleep(left)
        elif throttle_secs == 0 and result.status != _EvalStatus.EVALUATED:
            tf_private.warn(
                "EvalSpec.throttle_secs is set as 0. This might overload the job before finding "
                "(next) new checkpoint. Please consider to increase it."
            )
        last = self._train_spec.max_steps
        return not (result.metrics and last and result.metrics[GLOBAL_STEP] >= last)

    def _ask_listener(self, metrics: dict[str, Any] | None) -> bool:
        if metrics is not None:
            path = self._estimator.latest_checkpoint()
            result = _EvalResult(_EvalStatus.EVALUATED, metrics, path)
            if not self._listener.after_eval(result):
                tf_private.inform("Exiting evaluation, as requested by after_eval.")
                return False
        if not self._listener.before_eval():
            tf_private.inform("Exiting evaluation, as requested by before_eval.")
            return False
        return True

    def _checked_eval_spec(self) -> EvalSpec:
        _assert_eval_spec(self._eval_spec)
        assert self._eval_spec is not None
        return self._eval_spec

    def _with_hooks(self) -> TrainSpec:
        hooks = (*self._train_spec.hooks, *self._train_hooks)
        return self._train_spec._replace(hooks=hooks) if self._train_hooks else self._train_spec


def _check(estimator: Any, train_spec: Any, eval_spec: Any, listener: Any) -> None:
    if not isinstance(estimator, Estimator):
        raise TypeError(
            f"`estimator` must have type `tf.estimator.Estimator`. Got: {type(estimator)}"
        )
    if not isinstance(train_spec, TrainSpec):
        raise TypeError(
            f"`train_spec` must have type `tf.estimator.TrainSpec`. Got: {type(train_spec)}"
        )
    if eval_spec is not None and not isinstance(eval_spec, EvalSpec):
        raise TypeError(
            "`eval_spec` must be either `None` or have type `tf.estimator.EvalSpec`. "
            f"Got: {type(eval_spec)}"
        )
    if listener is not None and not isinstance(listener, _ContinuousEvalListener):
        raise TypeError(
            "`continuous_eval_listener` must have type `_ContinuousEvalListener`. "
            f"Got: {type(listener)}"
        )


def _assert_eval_spec(eval_spec: Any) -> None:
    if not isinstance(eval_spec, EvalSpec):
        raise TypeError(
            f"`eval_spec` must have type `tf.estimator.EvalSpec`. Got: {type(eval_spec)}"
        )


def _listeners(train_spec: Any) -> list[Any]:
    listeners = train_spec.saving_listeners
    return list(listeners) if isinstance(listeners, list | tuple) else []


def _is_single_node(config: Any) -> bool:
    """A process that is alone in its cluster needs no server; a parameter server always does."""
    if not config.cluster_spec or not config.task_type or config.task_type not in _TRAINER_JOBS:
        return False
    jobs = config.cluster_spec.jobs
    return len(jobs) == 1 and len(config.cluster_spec.job_tasks(jobs[0])) == 1


def _is_google_env() -> bool:
    settings = json.loads(os.environ.get(_TF_CONFIG_ENV) or "{}")
    return settings.get(_ENVIRONMENT_KEY) == _ENVIRONMENT_GOOGLE_VALUE
