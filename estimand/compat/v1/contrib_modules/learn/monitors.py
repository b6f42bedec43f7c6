"""`tf.contrib.learn.monitors`: what looked at training before there were hooks."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core.errors import ConfigError
from estimand.hooks import CheckpointSaverHook as CheckpointSaver
from estimand.hooks import NanLossDuringTrainingError, SessionRunArgs, SessionRunHook
from estimand.hooks import StepCounterHook as StepCounter

v1 = tf.compat.v1
_log = logging.getLogger("tensorflow")

__all__ = [
    "BaseMonitor", "CaptureVariable", "CheckpointSaver", "EveryN", "LoggingTrainable", "NanLoss",
    "PrintTensor", "RunHookAdapterForMonitors", "StepCounter", "StopAtStep", "SummarySaver",
    "ValidationMonitor", "replace_monitors_with_hooks",
]  # fmt: skip


class BaseMonitor:
    """Is told of each step; `step_begin` names tensors whose values `step_end` gets."""

    def __init__(self) -> None:
        self._estimator: Any = None
        self._max_steps: int | None = None

    @property
    def run_on_all_workers(self) -> bool:
        return False

    def set_estimator(self, estimator: Any) -> None:
        """The estimator that is trained."""
        self._estimator = estimator

    def begin(self, max_steps: int | None = None) -> None:
        self._max_steps = max_steps

    def end(self, session: Any = None) -> None:
        """After the last step."""

    def epoch_begin(self, epoch: int) -> None:
        """Nobody counts epochs."""

    def epoch_end(self, epoch: int) -> None:
        """Nobody counts epochs."""

    def step_begin(self, step: int) -> list[Any]:
        del step
        return []

    def step_end(self, step: int, output: dict[str, Any] | None) -> bool | None:
        """Whether to stop."""
        del step, output
        return False

    def post_step(self, step: int, session: Any) -> None:
        """After `step_end` of all."""


class EveryN(BaseMonitor):
    """Looks at the first steps, and at every nth from the last look on."""

    def __init__(self, every_n_steps: int = 100, first_n_steps: int = 1) -> None:
        super().__init__()
        self._every_n_steps, self._first_n_steps = every_n_steps, first_n_steps
        self._last_active_step = 0
        self._last_successful_step: int | None = None
        self._active = False

    def every_n_step_begin(self, step: int) -> list[Any]:
        del step
        return []

    def every_n_step_end(self, step: int, outputs: dict[str, Any]) -> bool | None:
        del step, outputs
        return False

    def every_n_post_step(self, step: int, session: Any) -> None:
        """After all have looked."""

    def step_begin(self, step: int) -> list[Any]:
        self._active = (
            step <= self._first_n_steps
            or step >= self._every_n_steps + self._last_active_step
            or step == self._max_steps
        )
        return list(self.every_n_step_begin(step) or []) if self._active else []

    def step_end(self, step: int, output: dict[str, Any] | None) -> bool | None:
        return self.every_n_step_end(step, output or {}) if self._active else False

    def post_step(self, step: int, session: Any) -> None:
        if self._active:
            self.every_n_post_step(step, session)
            self._last_active_step = step
        self._last_successful_step = step

    def end(self, session: Any = None) -> None:
        last = self._last_successful_step
        if last is not None and last != self._last_active_step:
            self.every_n_post_step(last, session)


class PrintTensor(EveryN):
    """Logs tensors: a list of names, or names by tag."""

    def __init__(self, tensor_names: Any, every_n: int = 100, first_n: int = 1) -> None:
        super().__init__(every_n, first_n)
        named = tensor_names if isinstance(tensor_names, dict) else {n: n for n in tensor_names}
        self._tensor_names: dict[str, Any] = dict(named)

    def every_n_step_begin(self, step: int) -> list[Any]:
        return list(self._tensor_names.values())

    def every_n_step_end(self, step: int, outputs: dict[str, Any]) -> bool | None:
        values = (f"{tag} = {outputs[name]}" for tag, name in self._tensor_names.items())
        _log.info("Step %d: %s", step, ", ".join(values))
        return False


class LoggingTrainable(EveryN):
    """Logs the trainable variables of a scope."""

    def __init__(self, scope: str | None = None, every_n: int = 100, first_n: int = 1) -> None:
        super().__init__(every_n, first_n)
        self._scope = scope

    def every_n_step_begin(self, step: int) -> list[Any]:
        variables = v1.trainable_variables()
        return [v.name for v in variables if re.match(self._scope or "", v.name)]

    def every_n_step_end(self, step: int, outputs: dict[str, Any]) -> bool | None:
        _log.info("Step %d: %s", step, ", ".join(f"{n} = {v}" for n, v in outputs.items()))
        return False


class CaptureVariable(EveryN):
    """Keeps the values of a variable; `values` has them by step."""

    def __init__(self, var_name: str, every_n: int = 100, first_n: int = 1) -> None:
        super().__init__(every_n, first_n)
        self._var_name = var_name
        self.values: dict[int, Any] = {}

    def every_n_step_begin(self, step: int) -> list[Any]:
        return [self._var_name]

    def every_n_step_end(self, step: int, outputs: dict[str, Any]) -> bool | None:
        self.values[step] = outputs[self._var_name]
        return False


class StopAtStep(BaseMonitor):
    """Ends training after so many steps, or at one."""

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        super().__init__()
        if (num_steps is None) == (last_step is None):
            raise ConfigError("StopAtStep needs num_steps or last_step, and not both.")
        self._num_steps, self._last_step = num_steps, last_step

    def step_begin(self, step: int) -> list[Any]:
        if self._last_step is None:
            assert self._num_steps is not None
            self._last_step = step + self._num_steps - 1
        return []

    def step_end(self, step: int, output: dict[str, Any] | None) -> bool | None:
        return self._last_step is not None and step >= self._last_step


class NanLoss(EveryN):
    """Ends training when the loss is no number."""

    def __init__(
        self, loss_tensor: Any, every_n_steps: int = 100, fail_on_nan_loss: bool = True
    ) -> None:
        super().__init__(every_n_steps)
        self._loss_tensor, self._fail = loss_tensor, fail_on_nan_loss

    def every_n_step_begin(self, step: int) -> list[Any]:
        return [self._loss_tensor]

    def every_n_step_end(self, step: int, outputs: dict[str, Any]) -> bool | None:
        if not np.isnan(next(iter(outputs.values()))):
            return False
        if self._fail:
            raise NanLossDuringTrainingError(f"The loss is NaN at step {step}.")
        _log.warning("The loss is NaN at step %d: training ends.", step)
        return True


class SummarySaver(EveryN):
    """Writes a summary op of its own."""

    def __init__(
        self,
        summary_op: Any,
        save_steps: int = 100,
        output_dir: str | None = None,
        summary_writer: Any = None,
        scaffold: Any = None,
    ) -> None:
        del scaffold
        super().__init__(save_steps)
        self._summary_op, self._output_dir, self._writer = summary_op, output_dir, summary_writer

    def set_estimator(self, estimator: Any) -> None:
        super().set_estimator(estimator)
        if self._writer is None:
            self._writer = v1.summary.FileWriterCache.get(self._output_dir or estimator.model_dir)

    def every_n_step_begin(self, step: int) -> list[Any]:
        return [] if self._summary_op is None else [self._summary_op]

    def every_n_step_end(self, step: int, outputs: dict[str, Any]) -> bool | None:
        for summary in outputs.values():
            self._writer.add_summary(summary, step)
        self._writer.flush()
        return False


class ValidationMonitor(EveryN):
    """Evaluates new checkpoints while it trains, and ends training if they get no better.

    It sees what has been saved: `RunConfig(save_checkpoints_steps=...)` says how often.
    """

    def __init__(
        self,
        x: Any = None,
        y: Any = None,
        input_fn: Callable[..., Any] | None = None,
        batch_size: int | None = None,
        eval_steps: int | None = None,
        every_n_steps: int = 100,
        metrics: Any = None,
        hooks: Iterable[Any] | None = None,
        early_stopping_rounds: int | None = None,
        early_stopping_metric: str = "loss",
        early_stopping_metric_minimize: bool = True,
        name: str | None = None,
        check_interval_secs: float | None = 60,
    ) -> None:
        super().__init__(every_n_steps, first_n_steps=-1)
        if x is None and input_fn is None:
            raise ConfigError("ValidationMonitor: either x or input_fn must be provided.")
        self._data = {"x": x, "y": y, "input_fn": input_fn, "batch_size": batch_size}
        self._others = {"steps": eval_steps, "hooks": list(hooks or ()), "name": name}
        self._metrics = metrics
        self._rounds, self._metric = early_stopping_rounds, early_stopping_metric
        self._minimize, self._interval = early_stopping_metric_minimize, check_interval_secs
        self._checked: float | None = None
        self._path: str | None = None
        self._best_value: Any = None
        self._best_value_step: int | None = None
        self._best_metrics: dict[str, Any] | None = None
        self._early_stopped = False

    @property
    def early_stopped(self) -> bool:
        """Whether it has ended training."""
        return self._early_stopped

    @property
    def best_step(self) -> int | None:
        return self._best_value_step

    @property
    def best_value(self) -> Any:
        return self._best_value

    @property
    def best_metrics(self) -> dict[str, Any] | None:
        return self._best_metrics

    def every_n_step_end(self, step: int, outputs: dict[str, Any]) -> bool | None:
        del outputs
        metrics = self._evaluated()
        if metrics is None:
            return False
        _log.info(
            "Validation (step %d): %s", step, ", ".join(f"{k} = {metrics[k]}" for k in metrics)
        )
        return self._rounds is not None and self._is_no_better(step, metrics)

    def _evaluated(self) -> dict[str, Any] | None:
        """The metrics of the newest checkpoint, if it is new and the time has come."""
        now = time.monotonic()
        if self._checked is not None and self._interval and now - self._checked < self._interval:
            return None
        self._checked = now
        path = tf.train.latest_checkpoint(self._estimator.model_dir)
        if path is None or path == self._path:
            return None
        self._path = path
        if hasattr(self._estimator, "fit"):
            return self._estimator.evaluate(**self._data, **self._others, metrics=self._metrics)
        return self._estimator.evaluate(input_fn=self._data["input_fn"], **self._others)

    def _is_no_better(self, step: int, metrics: dict[str, Any]) -> bool:
        if self._metric not in metrics:
            raise ConfigError(
                f"ValidationMonitor: there is no metric {self._metric!r}. Evaluations give "
                f"{sorted(metrics)}: name one with early_stopping_metric=."
            )
        value, best = metrics[self._metric], self._best_value
        if best is None or (value < best if self._minimize else value > best):
            self._best_value, self._best_value_step = value, step
            self._best_metrics = dict(metrics)
        assert self._rounds is not None and self._best_value_step is not None
        self._early_stopped = step - self._best_value_step >= self._rounds
        if self._early_stopped:
            _log.info(
                "Stopping. Best step: %d with %s = %s.",
                self._best_value_step, self._metric, self._best_value,
            )  # fmt: skip
        return self._early_stopped


class RunHookAdapterForMonitors(SessionRunHook):
    """Monitors as one hook."""

    def __init__(self, monitors: Sequence[BaseMonitor]) -> None:
        self._monitors = list(monitors)
        self._step: int | None = None
        self._asked: list[list[str]] = []

    def begin(self) -> None:
        self._step = None
        for monitor in self._monitors:
            monitor.begin(max_steps=None)

    def before_run(self, run_context: Any) -> Any:
        if self._step is None:
            self._step = int(run_context.session.run(v1.train.get_global_step()))
        self._step += 1
        asked = [monitor.step_begin(self._step) or [] for monitor in self._monitors]
        self._asked = [[_name(one) for one in names] for names in asked]
        graph = run_context.session.graph
        fetched = {_name(one): _tensor(graph, one) for names in asked for one in names}
        return SessionRunArgs(fetched) if fetched else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        assert self._step is not None
        results = run_values.results or {}
        stops = False
        for monitor, names in zip(self._monitors, self._asked, strict=True):
            stops |= bool(monitor.step_end(self._step, {name: results[name] for name in names}))
        for monitor in self._monitors:
            monitor.post_step(self._step, run_context.session)
        if stops:
            run_context.request_stop()

    def end(self, session: Any) -> None:
        for monitor in self._monitors:
            monitor.end(session)


def replace_monitors_with_hooks(monitors_or_hooks: Any, estimator: Any) -> list[Any]:
    """Hooks as they are, and one for all monitors."""
    given = list(monitors_or_hooks or ())
    monitors = [one for one in given if isinstance(one, BaseMonitor)]
    hooks = [one for one in given if not isinstance(one, BaseMonitor)]
    for monitor in monitors:
        monitor.set_estimator(estimator)
    return [*hooks, RunHookAdapterForMonitors(monitors)] if monitors else hooks


def _name(tensor_or_name: Any) -> str:
    return tensor_or_name if isinstance(tensor_or_name, str) else tensor_or_name.name


def _tensor(graph: Any, tensor_or_name: Any) -> Any:
    if not isinstance(tensor_or_name, str):
        return tensor_or_name
    try:
        element = graph.as_graph_element(tensor_or_name)
    except (KeyError, ValueError):
        return tensor_or_name  # of a variable, or of nothing
    return element.outputs[0] if isinstance(element, tf.Operation) else element
