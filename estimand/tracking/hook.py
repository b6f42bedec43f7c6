"""The hook that tells a tracker how a training goes."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import ConfigError
from estimand.core.files.atomic_files import replace_text
from estimand.engine.hook_calls.cadence import Cadence
from estimand.estimator.estimator import Estimator
from estimand.estimator.workspace import Workspace
from estimand.export import versions
from estimand.hooks.evaluation_watcher import EvaluationWatcher
from estimand.tracking.tracker import FAILED, FINISHED, INTERRUPTED, Tracker

_STEP = "global_step"
_log = logging.getLogger("tensorflow")


class TrackingHook(EvaluationWatcher):
    """Tells a tracker the parameters, the loss, each evaluation, and the exported models.

    Given to `train` or in a TrainSpec. A training that is resumed goes on with the same run: its id
    is kept in model_dir. Should the tracker fail, one warning says so, and the training goes on
    without it. A training that raises ends the run as failed.

    Args:
      tracker: `est.tracking.MLflow(...)`, `est.tracking.WeightsAndBiases(...)`, or one of your
        own.
      estimator: the one that is trained.
      every_n_steps: how often to tell the loss.
      params: what to note beside the estimator's own params: data, version of the code.
      exports: whether exported models are handed over at the end.

    >>> import estimand as est
    >>> tracker = est.tracking.MLflow("sqlite:///runs/mlflow.db", experiment="census")
    >>> hook = est.tracking.TrackingHook(tracker, estimator)  # doctest: +SKIP
    >>> estimator.train(input_fn, hooks=[hook], max_steps=1000)  # doctest: +SKIP
    """

    def __init__(
        self,
        tracker: Tracker,
        estimator: Estimator,
        *,
        every_n_steps: int = 100,
        params: Mapping[str, Any] | None = None,
        exports: bool = True,
    ) -> None:
        if every_n_steps < 1:
            raise ConfigError(f"every_n_steps must be 1 or more, given: {every_n_steps}.")
        self.cadence = Cadence(every_n_steps, None, at_start=False, aligned=True)
        self._every = every_n_steps
        self._tracker = tracker
        self._estimator = estimator
        self._params = dict(params or {})
        self._exports = exports
        self._works = True
        self._is_open = False
        self._is_started = False
        self._more_to_come = False
        self._seen: set[str] = set()

    # A training by itself

    def begin(self) -> None:
        super().begin()
        self._open()

    def check(self, loss: float, step: int) -> None:
        if step % self._every == 0:
            self._tell(self._tracker.metrics, _finite({"loss": loss}), step)

    def end(self, session: tf.compat.v1.Session) -> None:
        if not self._more_to_come:
            self._close(INTERRUPTED if self._is_interrupted() else FINISHED)

    def failed(self, error: BaseException) -> None:
        if not self._more_to_come:
            self.closed(error)

    # In train_and_evaluate, which goes on after it

    def opened(self) -> None:
        self._more_to_come = True
        self._open()

    def evaluated(self, name: str | None, metrics: Mapping[str, Any]) -> bool:
        prefix = f"eval_{name}" if name else "eval"
        values = {f"{prefix}/{key}": value for key, value in metrics.items() if key != _STEP}
        self._tell(self._tracker.metrics, _finite(values), int(metrics[_STEP]))
        return False

    def closed(self, error: BaseException | None) -> None:
        self._more_to_come = False
        if error is None:
            self._close(FINISHED)
        else:
            self._close(FAILED if isinstance(error, Exception) else INTERRUPTED)

    # The run

    def _open(self) -> None:
        if self._is_open:
            return
        self._is_open, self._is_started = True, False
        self._works = self._estimator.config.is_chief
        model_dir = self._estimator.model_dir
        self._seen = set(_exports(model_dir))
        self._tell(self._start, model_dir)
        given = {
            **flat(Workspace.params_noted_by(self._estimator)),
            **flat(self._estimator.params),
            **flat(self._params),
            "model_dir": model_dir,
        }
        self._tell(self._tracker.params, given)

    def _start(self, model_dir: str) -> None:
        path = os.path.join(model_dir, f"tracker-{type(self._tracker).__name__.lower()}.json")
        run_id = self._tracker.start(_read(path), os.path.basename(os.path.normpath(model_dir)))
        self._is_started = True
        os.makedirs(model_dir, exist_ok=True)
        replace_text(path, json.dumps({"run": run_id}) + "\n")

    def _is_interrupted(self) -> bool:
        """Whether the training ends because of a signal."""
        if self._loop is None:
            return False
        with tf_private.eager_mode():
            return bool(self._loop.trace.stop.interrupted)

    def _close(self, status: str) -> None:
        if not self._is_open:
            return
        self._is_open = False
        if self._exports and status == FINISHED:
            for path in _exports(self._estimator.model_dir):
                if path not in self._seen:
                    folder = os.path.basename(os.path.dirname(path))
                    self._tell(self._tracker.artifact, path, folder)
        if self._works:
            self._tell(self._tracker.end, status)
        elif self._is_started:  # what failed may have been an artifact, and the run is there
            with contextlib.suppress(Exception):
                self._tracker.end(status)

    def _tell(self, method: Callable[..., Any], *values: Any) -> None:
        if not self._works:
            return
        try:
            method(*values)
        except Exception as error:
            self._works = False
            _log.warning(
                "%s cannot be told any more, and the training goes on without it: %s: %s",
                type(self._tracker).__name__,
                type(error).__name__,
                error,
            )


def flat(values: Any, prefix: str = "") -> dict[str, Any]:
    """Names with dots; what is neither number nor text, as its text.

    >>> flat({"units": [8, 4], "adam": {"rate": 0.1}})
    {'units': '[8, 4]', 'adam.rate': 0.1}
    """
    if not isinstance(values, Mapping):
        values = values.values() if hasattr(values, "to_json") else {}  # hyperparameters
    result: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            result |= flat(value, f"{prefix}{name}.")
        else:
            plain = isinstance(value, bool | int | float | str)
            result[f"{prefix}{name}"] = value if plain else str(value)
    return result


def _finite(values: Mapping[str, Any]) -> dict[str, float]:
    """The numbers among them: a metric may also be a summary, as bytes, or an array."""
    arrays = {name: np.asarray(value) for name, value in values.items()}
    numbers = {n: float(a) for n, a in arrays.items() if a.ndim == 0 and a.dtype.kind in "biuf"}
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


def _exports(model_dir: str) -> list[str]:
    """The newest version of each exporter."""
    base = os.path.join(model_dir, "export")
    names = sorted(os.listdir(base)) if os.path.isdir(base) else []
    exported = (versions.versions(os.path.join(base, name)) for name in names)
    return [paths[-1] for paths in exported if paths]


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return str(json.load(file)["run"])
    except (OSError, ValueError, KeyError, TypeError):
        return None  # none, or one that is damaged: a new run
