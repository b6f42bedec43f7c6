"""Summaries into an event file."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimand.core.errors import ConfigError
from estimand.core.modes import ModeKeys
from estimand.engine.hook_calls.runner import asks_the_same_earlier
from estimand.engine.hook_calls.session import TracedSession
from estimand.engine.tracing.summaries import TensorSummary
from estimand.hooks.base import LoopHook
from estimand.hooks.event_file import EventFile

_train = tf.compat.v1.train
_Summary = tf.compat.v1.Summary
_SessionLog = tf.compat.v1.SessionLog
_log = logging.getLogger("tensorflow")


class SummarySaverHook(LoopHook):
    """Records summaries at the first step and every so many steps or seconds after it.

    In evaluation, return it in `evaluation_hooks`. The global step does not move there, so
    `save_steps=1` records every batch, and any other number the first batch only.

    >>> from estimand.hooks import SummarySaverHook
    >>> hook = SummarySaverHook(save_steps=1, output_dir="model/eval", summary_op="merged:0")
    >>> hook.cadence.steps
    1

    Args:
      save_steps: how many steps lie between two records.
      save_secs: how many seconds lie between two records.
      output_dir: where to record.
      summary_writer: a v1 FileWriter to record with, instead of `output_dir`.
      scaffold: records the `summary_op` of this Scaffold.
      summary_op: a tensor of serialized summaries, such as `tf.compat.v1.summary.merge_all()`,
        its name, or a list of them. Exactly one of `scaffold` and `summary_op` is given.
      tensor_summaries: `tf.summary.*` calls of the model function, to be recorded as well.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: tf.compat.v1.summary.FileWriter | None = None,
        scaffold: tf.compat.v1.train.Scaffold | None = None,
        summary_op: Any = None,
        *,
        tensor_summaries: Sequence[TensorSummary] = (),
    ) -> None:
        _check_one_source(scaffold, summary_op, tensor_summaries)
        self._look_every(steps=save_steps, secs=save_secs, names=("save_steps", "save_secs"))
        self._summary_op = summary_op
        self._resolved_op: list[Any] | None = None
        self._merged: list[Any] | None = None
        self._scaffold = scaffold
        self._given_writer = summary_writer
        self._summary_writer: Any = summary_writer
        self._output_dir = output_dir
        self._tensor_summaries = list(tensor_summaries)
        self._only_first_if_step_stands = save_steps is not None and save_steps > 1
        self._next_step: int | None = None
        self._request_summary = False

    def begin(self) -> None:
        super().begin()
        self._next_step = None
        if self._given_writer is None:
            self._summary_writer = EventFile(self._output_dir) if self._output_dir else None
        if self._summary_writer is None:
            _log.warning(
                "SummarySaverHook has neither output_dir nor summary_writer, so it records "
                "nothing. Pass output_dir=..., e.g. the model_dir."
            )
        self._merged = None
        if self._summary_op is not None:
            self._resolved_op = [self._resolve(op) for op in _as_list(self._summary_op)]
        self._find_global_step()

    @asks_the_same_earlier
    def before_run(self, run_context: tf.compat.v1.train.SessionRunContext) -> Any:
        self._request_summary = self._is_due(run_context.session)
        fetches: dict[str, Any] = {}
        if not self._called_when_due(run_context.session):
            fetches["global_step"] = self._global_step_tensor
        if self._request_summary:
            summary_op = self._get_summary_op(run_context.session)
            if summary_op is not None:
                fetches["summary"] = summary_op
            if self._tensor_summaries:
                fetches["tensors"] = [s.tensor for s in self._tensor_summaries]
        return _train.SessionRunArgs(fetches) if fetches else None

    def after_run(
        self,
        run_context: tf.compat.v1.train.SessionRunContext,
        run_values: tf.compat.v1.train.SessionRunValues,
    ) -> None:
        results = run_values.results or {}
        if self._request_summary or self._called_when_due(run_context.session):
            step = self._step_now(run_context.session)
        else:
            step = int(results["global_step"]) + 1
        if self._summary_writer is not None:
            if self._next_step is None:
                self._summary_writer.add_session_log(_SessionLog(status=_SessionLog.START), step)
            if self._request_summary:
                self._record(results, step)
        if self._request_summary:
            self._timer.update_last_triggered_step(step)
        self._next_step = step + 1

    def end(self, session: tf.compat.v1.Session = None) -> None:
        if self._summary_writer is not None:
            self._summary_writer.flush()

    def _is_due(self, session: tf.compat.v1.Session) -> bool:
        if self._next_step is None:
            return True
        if not self._called_when_due(session):
            return self._timer.should_trigger_for_step(self._next_step)
        trace = session.trace if self._loop is None else self._loop.trace
        return not self._only_first_if_step_stands or trace.mode == ModeKeys.TRAIN

    def _record(self, results: dict[str, Any], step: int) -> None:
        for summary in results.get("summary", ()):
            self._summary_writer.add_summary(summary, step)
        values = results.get("tensors", ())
        if len(values):
            protos = [as_proto(s, v) for s, v in zip(self._tensor_summaries, values, strict=True)]
            self._summary_writer.add_summary(_Summary(value=protos), step)

    def _get_summary_op(self, session: tf.compat.v1.Session) -> list[Any] | None:
        """What to fetch, as a list; None if there is no v1 summary in the model."""
        summary_op = self._resolved_op
        if summary_op is None and self._scaffold is not None:
            summary_op = self._scaffold.summary_op
            if summary_op is None and isinstance(session, TracedSession):
                summary_op = self._merged = self._merged or _merge_all(session)
        return None if summary_op is None else _as_list(summary_op)


def _check_one_source(
    scaffold: tf.compat.v1.train.Scaffold | None, summary_op: Any, tensor_summaries: Sequence[Any]
) -> None:
    given = (scaffold is not None) + (summary_op is not None)
    if given == 2 or (given == 0 and not tensor_summaries):
        raise ConfigError(
            "Exactly one of scaffold or summary_op must be provided. "
            f"Got scaffold={scaffold}, summary_op={summary_op}. Note that "
            "tf.compat.v1.summary.merge_all(scope) returns None where no summary was made within "
            "that scope."
        )


def _as_list(ops: Any) -> list[Any]:
    return list(ops) if isinstance(ops, (list, tuple)) else [ops]


def _merge_all(session: TracedSession) -> list[Any]:
    """What finalizing a Scaffold would have made its summary op; nobody finalizes it here."""
    summary_op = session.trace.summary_op
    if summary_op is None:
        with session.graph.as_default():
            summary_op = tf.compat.v1.summary.merge_all()
    return [] if summary_op is None else _as_list(summary_op)


def as_proto(summary: TensorSummary, value: Any) -> Any:
    """A `tf.summary.*` call and what it got, as event files have it."""
    proto = _Summary.Value(tag=summary.tag, tensor=tf.make_tensor_proto(value))
    metadata = summary.metadata
    if metadata is not None:
        # As bytes: TensorBoard's functions make it with their own copy of the message class.
        given = metadata if isinstance(metadata, bytes) else metadata.SerializeToString()
        proto.metadata.ParseFromString(given)
    return proto
