"""Values of tensors in the log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core.errors import ConfigError
from estimand.engine.hook_calls.cadence import NEVER
from estimand.engine.hook_calls.runner import asks_the_same_earlier
from estimand.hooks.base import LoopHook

_train = tf.compat.v1.train
_log = logging.getLogger("tensorflow")


class LoggingTensorHook(LoopHook):
    """Logs tensors every so many steps or seconds, at the end, or both.

    The values are those of one step, before its update: `loss = 0.25, step = 100 (0.412 sec)`.

    >>> from estimand.hooks import LoggingTensorHook
    >>> hook = LoggingTensorHook({"probabilities": "softmax_tensor"}, every_n_iter=50)
    >>> hook.cadence.steps
    50

    Args:
      tensors: tensors, or their names, by the tag they are logged under; or a list of them. The
        bare name of an op means its output.
      every_n_iter: log at the first step and every so many steps after it.
      every_n_secs: log at the first step and whenever so many seconds have passed.
      at_end: log once more after the last step; as with a v1 session, tensors that depend on
        the input then take one more batch.
      formatter: makes the line from a dict of tag to value.
    """

    def __init__(
        self,
        tensors: Mapping[str, Any] | Iterable[Any],
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[dict[str, Any]], str] | None = None,
    ) -> None:
        only_at_end = at_end and every_n_iter is None and every_n_secs is None
        if not only_at_end and (every_n_iter is None) == (every_n_secs is None):
            raise ConfigError(
                "either at_end and/or exactly one of every_n_iter and every_n_secs must be "
                f"provided. Got every_n_iter={every_n_iter}, every_n_secs={every_n_secs}, "
                f"at_end={at_end}."
            )
        if every_n_iter is not None and every_n_iter <= 0:
            raise ConfigError(f"invalid every_n_iter={every_n_iter}. It counts steps: 1 or more.")
        self._tensors = _by_tag(tensors)
        self._tag_order = list(self._tensors)
        self._formatter = formatter
        self._log_at_end = at_end
        self._only_at_end = only_at_end
        self._current_tensors: dict[str, Any] = {}
        self._iter_count = 0
        self._should_trigger = False
        if only_at_end:
            self._timer = _train.SecondOrStepTimer(every_steps=1)  # for the time it measures
            self._look(NEVER)
        else:
            self._look_every(
                steps=every_n_iter, secs=every_n_secs, names=("every_n_iter", "every_n_secs")
            )

    def begin(self) -> None:
        super().begin()
        self._iter_count = 0
        self._current_tensors = {tag: self._resolve(t) for tag, t in self._tensors.items()}

    @asks_the_same_earlier
    def before_run(self, run_context: tf.compat.v1.train.SessionRunContext) -> Any:
        self._should_trigger = not self._only_at_end and (
            self._called_when_due(run_context.session)
            or self._timer.should_trigger_for_step(self._iter_count)
        )
        return _train.SessionRunArgs(self._current_tensors) if self._should_trigger else None

    def after_run(
        self,
        run_context: tf.compat.v1.train.SessionRunContext,
        run_values: tf.compat.v1.train.SessionRunValues,
    ) -> None:
        if self._should_trigger:
            self._log_tensors(run_values.results)
        self._iter_count += 1

    def end(self, session: tf.compat.v1.Session) -> None:
        if not self._log_at_end:
            return
        try:
            values = session.run(self._current_tensors)
        except (tf.errors.OutOfRangeError, StopIteration):
            _log.warning(
                "%s could not be logged at the end: computing them takes a batch, and the input "
                "is used up.",
                ", ".join(self._tag_order),
            )
        else:
            self._log_tensors(values)

    def _log_tensors(self, tensor_values: dict[str, Any]) -> None:
        elapsed_secs, _ = self._timer.update_last_triggered_step(self._iter_count)
        if self._formatter is None and not _log.isEnabledFor(logging.INFO):
            return
        with np.printoptions(suppress=True):
            if self._formatter is not None:
                _log.info(self._formatter(tensor_values))
                return
            line = ", ".join(f"{tag} = {tensor_values[tag]!s}" for tag in self._tag_order)
        if elapsed_secs is None:
            _log.info("%s", line)
        else:
            _log.info("%s (%.3f sec)", line, elapsed_secs)


def _by_tag(tensors: Any) -> dict[str, Any]:
    if isinstance(tensors, Mapping):
        return {tag: tensors[tag] for tag in sorted(tensors)}
    if isinstance(tensors, str) or tf.is_tensor(tensors):
        tensors = [tensors]
    return {str(tensor): tensor for tensor in tensors}
