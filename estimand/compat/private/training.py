"""Parts of `tensorflow_estimator.python.estimator.training` that schedulers in the wild extend."""

from __future__ import annotations

import sys
import time
from typing import Any

import tensorflow as tf

from estimand.compat.private import executor
from estimand.compat.private.executor import _assert_eval_spec
from estimand.core import spec, spec_checks
from estimand.core.errors import ConfigError
from estimand.core.spec import EvalSpec
from estimand.estimator.lifecycle import roles
from estimand.estimator.lifecycle import train_and_evaluate as lifecycle

_MODULES = (
    "tensorflow_estimator.python.estimator.training",
    "tensorflow.python.estimator.training",
)


def train_and_evaluate(estimator: Any, train_spec: Any, eval_spec: Any) -> Any:
    """`estimand.train_and_evaluate`; by another `_TrainingExecutor` if one was put in its place."""
    if not isinstance(eval_spec, list | tuple) or isinstance(eval_spec, EvalSpec):
        _assert_eval_spec(eval_spec)
    own_executor = _replaced_executor()
    if own_executor is not None:
        return own_executor(estimator=estimator, train_spec=train_spec, eval_spec=eval_spec).run()
    config: Any = getattr(estimator, "config", None)
    if getattr(config, "task_type", None) == roles.EVALUATOR and config.task_id > 0:
        raise ConfigError(
            "For distributed training, there can only be one `evaluator` task (with task id 0). "
            f"Given task id {config.task_id}"
        )
    return lifecycle.train_and_evaluate(estimator, train_spec, eval_spec)


def _replaced_executor() -> Any:
    for name in _MODULES:
        own_executor = vars(sys.modules.get(name, object)).get("_TrainingExecutor")
        if own_executor is not None and own_executor is not executor._TrainingExecutor:
            return own_executor
    return None


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


def _validate_input_fn(input_fn: Any) -> None:
    spec._callable(input_fn)


def _validate_hooks(hooks: Any) -> tuple[Any, ...]:
    return spec_checks.checked_hooks(hooks, spec._RUN_HOOKS)


def _validate_saving_listeners(saving_listeners: Any) -> tuple[Any, ...]:
    return spec_checks.checked_listeners(saving_listeners)


def _validate_exporters(exporters: Any) -> tuple[Any, ...]:
    return spec._checked_exporters(exporters)
