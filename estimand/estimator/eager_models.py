"""What train, evaluate and predict share with `RunConfig(run_eagerly=True)`.

Slow, and easy to step through. One thing runs at a time: the model function finds its variables
by name, and no others can be put in their place, as with a trace. So calls take turns, from batch
to batch, and what cannot be right is refused in one sentence.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core.errors import ModelBusyError
from estimand.core.first_values import first_value
from estimand.core.metric_objects import is_metric
from estimand.core.modes import ModeKeys
from estimand.engine import metrics
from estimand.engine.eager.program import EagerProgram, FirstStep, watched_calls
from estimand.engine.eager.run import EagerRunner, EagerTrace
from estimand.engine.eager.session import EagerSession
from estimand.engine.feeding.batches import pack_batch
from estimand.engine.feeding.feeder import Feeder
from estimand.engine.hook_calls.runner import HookRunner
from estimand.engine.live_model import LiveModel
from estimand.engine.saving import initialization
from estimand.engine.warm_start import apply as warm_start
from estimand.estimator.untrained import refuse_or_warn
from estimand.estimator.workspace import Workspace
from estimand.hooks.adopt import adopt


def build(
    workspace: Workspace,
    runner: EagerRunner,
    element_spec: Any,
    first_batch: Sequence[tf.Tensor],
    checkpoint_path: str | None = None,
    *,
    purpose: str | None = None,
    untrained: bool = False,
) -> tuple[EagerTrace, str | None]:
    """Make the variables: by running the model function once, on a batch that does not count.

    Also gives the checkpoint that their values are from: an older one if the newest is damaged.
    """
    trace = try_out(runner, element_spec, first_batch)
    latest = checkpoint_path or workspace.latest_checkpoint()
    if latest is not None:
        runner.store.mark_changed()  # by the batch that does not count
        session = EagerSession(trace)
        fall_back = None if checkpoint_path else workspace.model_dir
        used = initialization.restore(trace, runner.store, session, latest, fall_back=fall_back)
        if runner.mode == ModeKeys.TRAIN:
            initialization.expect_the_rest(trace, runner.store, used)
        return trace, used
    if purpose is not None:
        refuse_or_warn(workspace, trace, purpose, untrained)
    if not runner.store.only_in_memory:
        for variable in trace.variables.by_name.values():
            initial = first_value(variable)
            if initial is not None:
                variable.assign(initial)
        for name, value in trace.outside_values.items():
            trace.variables.by_name[name].assign(value)
        if workspace.warm_start is not None:
            saved = trace.variables.saved()
            trainable = {n for n, v in saved.items() if v.trainable}
            warm_start.warm_start(workspace.warm_start, saved, trainable)
    return trace, None


def try_out(runner: EagerRunner, element_spec: Any, batch: Sequence[tf.Tensor]) -> EagerTrace:
    """What the model function gives for a batch that does not count."""
    trace = runner.run(*pack_batch(element_spec, batch))
    runner.start_anew()
    return trace


def first_step(runner: EagerRunner, feeder: Feeder, element_spec: tuple[Any, Any]) -> FirstStep:
    """With a batch that makes the variables before it has its turn: input is read only once.

    Raises OutOfRangeError where there is none.
    """
    batch = feeder.next_batch()
    feeder.took(-1)  # it counts when the step does
    return FirstStep(batch, lambda: runner.run(*pack_batch(element_spec, batch)))


def calls(
    runner: EagerRunner,
    trace: EagerTrace,
    first: FirstStep,
    feeder: Feeder,
    element_spec: tuple[Any, Any],
    hooks: Sequence[Any],
    steps: int | None = None,
) -> Iterator[EagerTrace]:
    """The model function called on one batch after another, with hooks around each call."""
    session = EagerSession(trace)
    watching = HookRunner([adopt(hook) for hook in hooks], session)
    program = EagerProgram(runner, session, element_spec, first)
    return watched_calls(program, feeder, watching, steps)


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


# Turns


def begin(workspace: Workspace, verb: str) -> None:
    """Before anything is built: refuse what would disturb a training in another thread."""
    live = workspace.live
    with live.lock:
        _check_thread(live, verb)
        if not live.is_trained:
            workspace.forget_what_is_gone()


def _check_thread(live: LiveModel, verb: str) -> None:
    if live.is_trained and not live.is_trained_here:
        raise ModelBusyError(
            f"{verb} was called while another thread trains this estimator, which runs eagerly: "
            "there one thing runs at a time. Wait for train to return, use another Estimator of "
            "the same model_dir, or set RunConfig(run_eagerly=False)."
        )


@contextlib.contextmanager
def values_lent(workspace: Workspace, verb: str) -> Iterator[None]:
    """Inside, variables may be given other values; a training in this thread gets its own back."""
    live = workspace.live
    with live.lock:
        _check_thread(live, verb)
        if not live.is_trained:
            yield
            return
        before = [(variable, variable.read_value()) for variable in live.store.variables()]
        try:
            yield
        finally:
            for variable, value in before:
                variable.assign(value)
            live.store.mark_changed()  # they are no checkpoint's: training goes on


def all_at_once(dataset: tf.data.Dataset, start: Callable[[], Iterator[Any]]) -> list[Any]:
    """All that a prediction inside of a training gives; what never ends is refused."""
    if int(dataset.cardinality().numpy()) == tf.data.INFINITE_CARDINALITY:
        raise ModelBusyError(
            "predict was called by a hook of training, which runs eagerly, with input that never "
            "ends: there all predictions are made before training goes on. Give the input an end "
            "(dataset.take(n)), or set RunConfig(run_eagerly=False)."
        )
    return list(start())


def in_turn(
    workspace: Workspace, batches: Iterator[Any], ensure_values: Callable[[], None]
) -> Iterator[Any]:
    """One batch after another, with the values that the prediction began with."""
    live = workspace.live
    while True:
        with live.lock:
            if live.is_trained:
                raise ModelBusyError(
                    "This predict generator was begun before train, which is under way and runs "
                    "eagerly: there one thing runs at a time. Read the generator to its end "
                    "before train, or set RunConfig(run_eagerly=False)."
                )
            ensure_values()
            try:
                value = next(batches)
            except StopIteration:
                return
        yield value
