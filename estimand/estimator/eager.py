"""train, evaluate and predict with `RunConfig(run_eagerly=True)`: slow, and easy to step through.

Hooks are called at every step. What they fetch can be a variable, or a tensor by the name that
`tf.identity(tensor, name=...)` gave it, but not a tensor of a graph: there is none.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from estimand import hooks as ready_made
from estimand.core import tf_private
from estimand.core.errors import ModelFnError
from estimand.core.metric_objects import is_metric
from estimand.engine import initialization, metrics, warm_start
from estimand.engine.cadence import Schedule
from estimand.engine.eager_run import EagerRunner, EagerTrace
from estimand.engine.feeding import Feeder
from estimand.engine.interrupts import Interrupts
from estimand.engine.tracing import pack_batch

if TYPE_CHECKING:
    from estimand.estimator.estimator import Estimator

_log = logging.getLogger("tensorflow")
_train = tf.compat.v1.train


class EagerSession(tf_private.SessionInterface):
    """What hooks get as a session: it reads variables, and what the last step has named."""

    def __init__(self, trace: EagerTrace) -> None:
        self.trace = trace

    @property
    def graph(self) -> tf.Graph:
        return self.trace.variables.graph

    def run(self, fetches: Any, feed_dict: Any = None, *args: Any, **kwargs: Any) -> Any:
        del feed_dict, args, kwargs
        return tf.nest.map_structure(self._value, fetches)

    def _value(self, fetch: Any) -> Any:
        if fetch is None or isinstance(fetch, tf.Operation):
            return None
        if isinstance(fetch, str):
            name = fetch.split(":")[0]
            known = {**self.trace.variables.by_name, **self.trace.kept.named}
            fetch = known.get(name, fetch)
        if hasattr(fetch, "numpy"):
            return fetch.numpy()
        raise ModelFnError(
            f"A hook fetches {fetch!r}, but with RunConfig(run_eagerly=True) there is no graph to "
            "fetch tensors from: only variables, and tensors that model_fn names with "
            "tf.identity(tensor, name=...), can be read. Name it so, print the value inside "
            "model_fn, or leave the hook out while debugging."
        )


@dataclass(frozen=True)
class RunAgain:
    """A step that has to be run anew, because variables have been changed since."""

    put_in_place: Callable[[], EagerTrace]


@dataclass(frozen=True)
class TakenBack:
    """A step that was run and undone, to be put in place later."""

    trace: EagerTrace
    after: list[tuple[tf.Variable, tf.Tensor]]

    @classmethod
    def of(cls, trace: EagerTrace, before: dict[int, tf.Tensor]) -> TakenBack:
        """Undo the step of `trace`; `before` has what variables held that existed already."""
        after = []
        for name, variable in trace.variables.by_name.items():
            value = before.get(id(variable), trace.outside_values.get(name))
            if value is None:
                value = getattr(variable, "_estimand_first_value", None)
            if value is not None and name not in trace.variables.local:
                after.append((variable, variable.read_value()))
                variable.assign(value)
        return cls(trace, after)

    def put_in_place(self) -> EagerTrace:
        for variable, value in self.after:
            variable.assign(value)
        return self.trace


class EagerLoop:
    """The training loop, one Python step at a time; has what hooks expect of a loop."""

    def __init__(
        self,
        runner: EagerRunner,
        feeder: Feeder,
        element_spec: tuple[Any, Any],
        trace: EagerTrace,
        hooks: Sequence[Any],
        save_checkpoint: Callable[..., str],
        model_dir: str,
        log_every: int | None,
        first_step: TakenBack | RunAgain | None = None,
        after_first_step: Callable[[], None] = lambda: None,
    ) -> None:
        self.trace = trace
        self.model_dir = model_dir
        self.last_loss: Any = None
        self.stopped = False
        self._done = 0
        self._runner = runner
        self._feeder = feeder
        self._element_spec = element_spec
        self._hooks = list(hooks)
        self._log_every = log_every
        self._first_step = first_step
        self._after_first_step = after_first_step
        self.save_checkpoint = save_checkpoint
        self._session = EagerSession(trace)

    @property
    def hooks(self) -> list[Any]:
        return list(self._hooks)

    def global_step(self) -> int:
        return int(self.trace.global_step.numpy())

    def request_stop(self, reason: str) -> None:
        del reason
        self.stopped = True

    def run(self, target: int | None, interrupts: Interrupts) -> None:
        session = self._session
        for hook in self._hooks:
            if isinstance(hook, ready_made.LoopHook):
                hook.bind(self)
            hook.begin()
        start = self.global_step()
        for hook in self._hooks:
            hook.after_create_session(session, None)
        schedules = [
            Schedule(getattr(h, "cadence", None), start, time.monotonic()) for h in self._hooks
        ]
        while not (self.stopped or interrupts.received or self._reached(target)):
            if not self._step(session, schedules):
                break
        for hook in self._hooks:
            hook.end(session)

    def _reached(self, target: int | None) -> bool:
        stops = [target, *(getattr(h, "stop_step", None) for h in self._hooks)]
        last = min((s for s in stops if s is not None), default=None)
        return last is not None and self.global_step() >= last

    def _step(self, session: EagerSession, schedules: list[Schedule]) -> bool:
        step, now = self.global_step(), time.monotonic()
        looking = []
        for hook, schedule in zip(self._hooks, schedules, strict=True):
            if schedule.due_in(step, now) == 1:
                context = _train.SessionRunContext(_train.SessionRunArgs(None), session)
                looking.append((hook, schedule, context, hook.before_run(context)))
        if not self._run_step():
            return False
        for hook, schedule, context, request in looking:
            fetches = getattr(request, "fetches", request)
            values = _train.SessionRunValues(session.run(fetches), None, None)
            hook.after_run(context, values)
            schedule.looked(self.global_step(), time.monotonic())
            self.stopped |= context.stop_requested
        return True

    def _run_step(self) -> bool:
        if self._first_step is not None:
            self.count_step(self._first_step.put_in_place())
            self._first_step = None
            self._after_first_step()
            return True
        try:
            batch = self._feeder.next_batch()
        except tf.errors.OutOfRangeError:
            return False
        self.count_step(self._runner.run(*pack_batch(self._element_spec, batch)))
        return True

    def count_step(self, trace: EagerTrace) -> None:
        """Take note of a step that has been run."""
        self.trace = self._session.trace = trace
        self.last_loss = float(trace.spec.loss)
        if self._log_every and self._done % self._log_every == 0:
            _log.info("loss = %s, step = %s", self.last_loss, self.global_step())
        self._done += 1
        if math.isnan(self.last_loss):
            _log.error("Model diverged with loss = NaN.")
            raise _train.NanLossDuringTrainingError


def initialized(
    trace: EagerTrace, first_step: TakenBack, again: Callable[[], EagerTrace]
) -> TakenBack | RunAgain:
    """Let a Scaffold's `init_fn` set variables that stand at their start; the first step."""
    scaffold = trace.spec.scaffold
    if scaffold is None or scaffold.init_fn is None:
        return first_step
    scaffold.init_fn(EagerSession(trace))  # a Scaffold binds itself as the first argument
    return RunAgain(again)


def build(
    estimator: Estimator,
    runner: EagerRunner,
    element_spec: Any,
    first_batch: Sequence[tf.Tensor],
    checkpoint_path: str | None = None,
) -> EagerTrace:
    """Make the variables: by running the model function once, on a batch that does not count."""
    trace = runner.run(*pack_batch(element_spec, first_batch))
    runner.start_anew()
    latest = checkpoint_path or estimator.latest_checkpoint()
    if latest is not None:
        runner.store.mark_changed()  # by the batch that does not count
        session: Any = EagerSession(trace)
        fall_back = None if checkpoint_path else estimator.model_dir
        initialization.restore(trace, runner.store, session, latest, fall_back=fall_back)
    elif not runner.store.only_in_memory:
        for variable in trace.variables.by_name.values():
            initial = getattr(variable, "_estimand_first_value", None)
            if initial is not None:
                variable.assign(initial)
        for name, value in trace.outside_values.items():
            trace.variables.by_name[name].assign(value)
        if estimator._warm_start_settings is not None:
            saved = trace.variables.saved()
            trainable = {n for n, v in saved.items() if v.trainable}
            warm_start.warm_start(estimator._warm_start_settings, saved, trainable)
    return trace


def evaluate(
    runner: EagerRunner, feeder: Feeder, element_spec: Any, steps: int | None
) -> dict[str, Any]:
    """Metrics over the input."""
    losses: list[float] = []
    trace: EagerTrace | None = None
    while steps is None or len(losses) < steps:
        try:
            batch = feeder.next_batch()
        except tf.errors.OutOfRangeError:
            break
        trace = runner.run(*pack_batch(element_spec, batch))
        metrics.check_names(trace.spec)
        losses.append(float(trace.spec.loss))
    results: dict[str, Any] = {metrics.LOSS: np.float32(np.mean(losses) if losses else 0.0)}
    if trace is not None:
        for name, metric in (trace.spec.eval_metric_ops or {}).items():
            value = metric.result() if is_metric(metric) else metric[0]
            results[name] = value.numpy() if hasattr(value, "numpy") else value
        results[metrics.GLOBAL_STEP] = trace.global_step.numpy()
    return results


@dataclass(frozen=True)
class Keys:
    """The keys of predictions, None where they are a single tensor."""

    keys: list[Any] | None


def predict_batches(
    runner: EagerRunner, feeder: Feeder, element_spec: Any, select: Callable[[EagerTrace], Any]
) -> Iterator[tuple[np.ndarray, ...]]:
    """The arrays of one batch after another."""
    while True:
        try:
            batch = feeder.next_batch()
        except tf.errors.OutOfRangeError:
            return
        chosen = select(runner.run(*pack_batch(element_spec, batch)))
        values = chosen.values() if isinstance(chosen, dict) else [chosen]
        yield tuple(v.numpy() for v in values)
