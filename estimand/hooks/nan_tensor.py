"""Noticing a loss that is not a number."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.engine.hook_calls.cadence import NEVER, Cadence
from estimand.engine.hook_calls.runner import RunningLoop
from estimand.engine.tracing.built_model import BuiltModel
from estimand.hooks.base import LoopHook

_train = tf.compat.v1.train
_log = logging.getLogger("tensorflow")
_MESSAGE = "Model diverged with loss = NaN."


class NanTensorHook(LoopHook):
    """Ends training when the loss is NaN: with an error, or by stopping.

    The model's own loss is checked once per block of steps (weights that are NaN stay NaN), which
    costs nothing. Any other tensor is looked at in every step, unless a cadence is given.

    >>> from estimand.hooks import NanTensorHook
    >>> hook = NanTensorHook("loss:0", fail_on_nan_loss=False)

    Args:
      loss_tensor: the tensor to watch, or its name.
      fail_on_nan_loss: raise `NanLossDuringTrainingError`; if False, warn and stop training.
      cadence: when to look, `est.every(steps=10)`, instead of the above.
    """

    def __init__(
        self, loss_tensor: Any, fail_on_nan_loss: bool = True, *, cadence: Cadence | None = None
    ) -> None:
        self._loss_tensor = loss_tensor
        self._fail_on_nan_loss = fail_on_nan_loss
        self._given_cadence = cadence
        self._fetch = loss_tensor
        self._is_model_loss = False
        if cadence is not None:
            self._look(cadence)

    def bind(self, loop: RunningLoop) -> None:
        super().bind(loop)
        self._find_out_when_to_look()

    def begin(self) -> None:
        super().begin()
        if self._loop is None:
            self._find_out_when_to_look()
        self._fetch = self._resolve(self._loss_tensor)

    def _find_out_when_to_look(self) -> None:
        if self._given_cadence is not None:
            return
        self._is_model_loss = self._loop is not None and self._watches_loss_of(self._loop.trace)
        self.__dict__.pop("cadence", None)  # of an earlier run
        if self._is_model_loss:
            self._look(NEVER)

    def _watches_loss_of(self, trace: BuiltModel) -> bool:
        if self._run_eagerly:  # the loss is the only tensor to be seen
            return True
        watched = self._resolve(self._loss_tensor)
        return (
            trace.spec.loss is not None
            and getattr(watched, "name", watched) == trace.spec.loss.name
        )

    def check(self, loss: float, step: int) -> None:
        """Judge the loss of the model at `step`; the loop calls this after every block."""
        if self._is_model_loss and np.isnan(loss) and self._diverged(step):
            self._loop.request_stop(_MESSAGE)

    def before_run(self, run_context: tf.compat.v1.train.SessionRunContext) -> Any:
        return _train.SessionRunArgs(self._fetch)

    def after_run(
        self,
        run_context: tf.compat.v1.train.SessionRunContext,
        run_values: tf.compat.v1.train.SessionRunValues,
    ) -> None:
        if np.any(np.isnan(run_values.results)):
            step = None if self._loop is None else self._step_now(run_context.session)
            if self._diverged(step):
                run_context.request_stop()

    def _diverged(self, step: int | None) -> bool:
        """Raise, or return True if training is to be stopped."""
        if not self._fail_on_nan_loss:
            _log.warning(_MESSAGE)
            return True
        _log.error(_MESSAGE)
        error = _train.NanLossDuringTrainingError()
        where = "" if step is None else f"Noticed at step {step}. "
        advice = "" if self._run_eagerly else " RunConfig(run_eagerly=True) lets you print there."
        error.add_note(
            f"{where}Usual causes: a learning rate that is too high, log(0) or a division by 0 in "
            f"the loss, NaN in the input.{advice}"
        )
        raise error
