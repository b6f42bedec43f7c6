"""Summaries of a model function that runs eagerly, into the event file."""

from __future__ import annotations

import tensorflow as tf

from estimand.engine.hook_calls.cadence import every
from estimand.hooks.base import LoopHook
from estimand.hooks.event_file import EventFile
from estimand.hooks.summary_saver import as_proto

_Summary = tf.compat.v1.Summary


class EagerSummaryHook(LoopHook):
    """Records what the model function summarised in the step just run, and its loss."""

    def __init__(self, save_steps: int, output_dir: str) -> None:
        self.cadence = every(steps=save_steps)
        self._output_dir = output_dir
        self._events: EventFile | None = None

    def begin(self) -> None:
        self._events = EventFile(self._output_dir)

    def after_run(
        self,
        run_context: tf.compat.v1.train.SessionRunContext,
        run_values: tf.compat.v1.train.SessionRunValues,
    ) -> None:
        assert self._events is not None
        step, trace = self._loop.global_step(), self._loop.trace
        for serialized in trace.kept.serialized():
            self._events.add_summary(serialized, step)
        values = [as_proto(s, s.tensor.numpy()) for s in trace.kept.v2_summaries]
        if "loss" not in trace.kept.v1_summaries:
            loss = float(trace.spec.loss)
            values.append(_Summary.Value(tag="loss", simple_value=loss))
        self._events.add_summary(_Summary(value=values), step)

    def end(self, session: tf.compat.v1.Session = None) -> None:
        assert self._events is not None
        self._events.flush()
