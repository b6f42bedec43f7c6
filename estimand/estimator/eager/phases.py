"""train, evaluate, predict with `RunConfig(run_eagerly=True)`: slow, and easy to step through."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core.metric_objects import is_metric
from estimand.core.modes import ModeKeys
from estimand.engine.checkpoints import initialization
from estimand.engine.eager.run import EagerRunner, EagerTrace
from estimand.engine.feeding.feeder import Feeder
from estimand.engine.running.interrupts import Interrupts
from estimand.engine.tracing import metrics
from estimand.engine.tracing.trace import pack_batch
from estimand.engine.warm_start import apply as warm_start
from estimand.estimator.eager.hooks import EagerHooks, EagerSession
from estimand.estimator.untrained import refuse_or_warn
from estimand.estimator.workspace import Workspace

_log = logging.getLogger("tensorflow")
_train = tf.compat.v1.train


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
        variables_made: Callable[[EagerTrace], None] = lambda trace: None,
        on_step: Callable[[int, float], None] = lambda step, loss: None,
    ) -> None:
        self._on_step = on_step
        self.trace = trace
        self.model_dir = model_dir
        self.last_loss: Any = None
        self.stopped = False
        self.motionless_steps = 0
        self._done = 0
        self._step = 0
        self._runner = runner
        self._feeder = feeder
        self._element_spec = element_spec
        self._hooks = EagerHooks(hooks, EagerSession(trace))
        self._log_every = log_every
        self._first_step = first_step
        self._after_first_step = after_first_step
        self._variables_made = variables_made
        self.save_checkpoint = save_checkpoint

    @property
    def hooks(self) -> list[Any]:
        return list(self._hooks.hooks)

    def global_step(self) -> int:
        return int(self.trace.global_step.numpy())

    def request_stop(self, reason: str) -> None:
        del reason
        self.stopped = True

    def run(self, target: int | None, interrupts: Interrupts) -> None:
        self._step = self.global_step()
        self._hooks.begin(self)
        self._hooks.after_create_session(self.global_step())
        while not (self._wants_to_stop() or interrupts.received or self._reached(target)):
            looks = self._hooks.before_run(self.global_step())
            if not self._run_step():
                break
            self._hooks.after_run(looks, self.global_step())
        self._hooks.end()

    def _wants_to_stop(self) -> bool:
        return self.stopped or self._hooks.stop_requested

    def _reached(self, target: int | None) -> bool:
        stops = [target, *(getattr(h, "stop_step", None) for h in self._hooks.hooks)]
        last = min((s for s in stops if s is not None), default=None)
        return last is not None and self.global_step() >= last

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
        self._runner.store.mark_changed()
        self._runner.draws.advance()
        before, self._step = self._step, int(trace.global_step.numpy())
        self.motionless_steps += self._step == before
        if _identities(trace) != _identities(self.trace):
            self._variables_made(trace)
        self.trace = trace
        self._hooks.session.move_on_to(trace)
        self.last_loss = float(trace.spec.loss)
        if self._log_every and self._done % self._log_every == 0:
            _log.info("loss = %s, step = %s", self.last_loss, self.global_step())
        self._on_step(self._step, self.last_loss)
        self._done += 1
        if math.isnan(self.last_loss):
            _log.error("Model diverged with loss = NaN.")
            raise _train.NanLossDuringTrainingError


def _identities(trace: EagerTrace) -> dict[str, int]:
    return {name: id(variable) for name, variable in trace.variables.saved().items()}


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
    workspace: Workspace,
    runner: EagerRunner,
    element_spec: Any,
    first_batch: Sequence[tf.Tensor],
    checkpoint_path: str | None = None,
    *,
    purpose: str | None = None,
    untrained: bool = False,
) -> EagerTrace:
    """Make the variables: by running the model function once, on a batch that does not count."""
    trace = try_out(runner, element_spec, first_batch)
    latest = checkpoint_path or workspace.latest_checkpoint()
    if latest is not None:
        runner.store.mark_changed()  # by the batch that does not count
        session: Any = EagerSession(trace)
        fall_back = None if checkpoint_path else workspace.model_dir
        used = initialization.restore(trace, runner.store, session, latest, fall_back=fall_back)
        if runner.mode == ModeKeys.TRAIN:
            initialization.expect_the_rest(trace, runner.store, used)
        return trace
    if purpose is not None:
        refuse_or_warn(workspace, trace, purpose, untrained)
    if not runner.store.only_in_memory:
        for variable in trace.variables.by_name.values():
            initial = getattr(variable, "_estimand_first_value", None)
            if initial is not None:
                variable.assign(initial)
        for name, value in trace.outside_values.items():
            trace.variables.by_name[name].assign(value)
        if workspace.warm_start is not None:
            saved = trace.variables.saved()
            trainable = {n for n, v in saved.items() if v.trainable}
            warm_start.warm_start(workspace.warm_start, saved, trainable)
    return trace


def try_out(runner: EagerRunner, element_spec: Any, batch: Sequence[tf.Tensor]) -> EagerTrace:
    """What the model function gives for a batch that does not count."""
    trace = runner.run(*pack_batch(element_spec, batch))
    runner.start_anew()
    return trace


def watched(
    runner: EagerRunner,
    feeder: Feeder,
    element_spec: Any,
    hooks: EagerHooks,
    steps: int | None = None,
) -> Iterator[EagerTrace]:
    """The model function called on one batch after another, with hooks around each call."""
    hooks.begin()
    hooks.after_create_session(0)
    done = 0
    while (steps is None or done < steps) and not hooks.stop_requested:
        looks = hooks.before_run(done)
        try:
            batch = feeder.next_batch()
        except tf.errors.OutOfRangeError:
            break
        trace = runner.run(*pack_batch(element_spec, batch))
        done += 1
        hooks.session.move_on_to(trace)
        hooks.after_run(looks, done)
        yield trace
    hooks.end()


def evaluate(calls: Iterator[EagerTrace]) -> dict[str, Any]:
    """Metrics over the input."""
    losses: list[float] = []
    trace: EagerTrace | None = None
    for trace in calls:
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
    calls: Iterator[EagerTrace], select: Callable[[EagerTrace], Any]
) -> Iterator[tuple[np.ndarray, ...]]:
    """The arrays of one batch after another."""
    for trace in calls:
        chosen = select(trace)
        values = chosen.values() if isinstance(chosen, dict) else [chosen]
        yield tuple(v.numpy() for v in values)
