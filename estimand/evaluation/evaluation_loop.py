"""Evaluation: metrics of a checkpoint, or of the live variables, over an input."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimand.engine import block_mode
from estimand.engine.feeding.feeder import Feeder
from estimand.engine.hook_calls.runner import HookRunner
from estimand.engine.hook_calls.session import TracedSession
from estimand.engine.live_model import LiveModel
from estimand.engine.metrics import GLOBAL_STEP
from estimand.engine.progress.progress import Progress
from estimand.engine.running.program import StepProgram
from estimand.engine.saving.initialization import start_locals
from estimand.engine.tracing.trace import Trace
from estimand.evaluation.sets import run_drawn_set
from estimand.hooks.adopt import adopt

_log = logging.getLogger("tensorflow")

_MOST_BATCHES_PER_CALL = 200


def evaluation_program(model: LiveModel, trace: Trace, of_training: str | None) -> StepProgram:
    """The compiled evaluation step of a trace, made once."""
    assert trace.metrics is not None
    updates = trace.metrics.updates()

    mode = block_mode.of_reading(trace, of_training)

    def make() -> StepProgram:
        return StepProgram(trace, updates, trace.spec.loss, block_mode=mode)

    return model.program(trace, f"evaluate {mode}", make)


def run_evaluation(
    model: LiveModel,
    trace: Trace,
    feeder: Feeder,
    *,
    steps: int | None,
    hooks: Sequence[Any],
    progress: bool | None,
    of_training: str | None = None,
    about_to_write: Callable[[], None] | None = None,
) -> dict[str, Any]:
    """Run the metrics of `trace` over the input, on the variables as they are now.

    `of_training`: the block mode of the training, if there is one. `about_to_write` is called
    before hooks change variables.
    """
    assert trace.metrics is not None
    session = TracedSession(trace, feeder.next_batch, about_to_write)
    program = evaluation_program(model, trace, of_training)
    all_hooks = [adopt(h) for h in (*hooks, *(trace.spec.evaluation_hooks or ()))]
    runner = HookRunner(all_hooks, session)
    runner.begin()
    start_locals(trace, session)
    trace.metrics.reset_keras()
    runner.after_create_session(0)
    done = _run_all(program, feeder, runner, steps, progress)
    if done == 0 and not runner.stop_requested and steps != 0:
        _log.warning(
            "The input of evaluate is empty: input_fn gave no batch, so the metrics below are "
            "those of nothing at all. Check the files or arrays that input_fn reads."
        )
    values = trace.metrics.values(session.run)
    values[GLOBAL_STEP] = trace.global_step.numpy()
    runner.end()
    if runner.graph_changed:
        model.drop(trace)
    return values


def _run_all(
    program: StepProgram,
    feeder: Feeder,
    runner: HookRunner,
    steps: int | None,
    progress: bool | None,
) -> int:
    """How many batches there were, or were wanted."""
    total = min((n for n in (steps, feeder.remaining) if n is not None), default=None)
    done = 0
    with Progress.for_evaluation(total, enabled=progress) as line:
        while (steps is None or done < steps) and not runner.stop_requested:
            count = _batches_at_once(program, runner, feeder, done, steps)
            if count == 0 and feeder.replicas == 1:
                runner.before_run(done, 1)  # as a v1 session, which finds the end by trying
                break
            drawn = feeder.replicas > 1 and (feeder.may_end_unexpectedly or count == 0)
            if drawn:
                count = 1
                if not run_drawn_set(program.trace, feeder, runner, done):
                    break
            elif not _run_batches(program, feeder, runner, done, count):
                break
            _log_progress(done, count, steps)
            done += count
            line.update(done)
    return done


def _log_progress(done: int, count: int, steps: int | None) -> None:
    """The lines of tf.estimator: every batch of a short evaluation, every tenth part of others."""
    if steps is None:
        return
    period = 1 if steps < 20 else steps // 10
    for number in range(done + 1, done + count + 1):
        if number % period == 0 or number == steps:
            _log.info("Evaluation [%d/%d]", number, steps)


def _batches_at_once(
    program: StepProgram, runner: HookRunner, feeder: Feeder, done: int, steps: int | None
) -> int:
    limits = [_MOST_BATCHES_PER_CALL, program.pace.steps_per_call]
    if done == 0 and feeder.remaining is None:
        return 1  # to know whether there was any
    look = runner.steps_to_next_look(done)
    limits += [n for n in (look, feeder.remaining) if n is not None]
    if steps is not None:
        limits.append(steps - done)
    return min(limits)


def _run_batches(
    program: StepProgram, feeder: Feeder, runner: HookRunner, done: int, count: int
) -> bool:
    """Update the metrics with `count` batches; False when the input ended."""
    look = runner.before_run(done, count)
    start = time.perf_counter()
    try:
        if look is None:
            program.loop(feeder, count)
            program.pace.note(time.perf_counter() - start, count)
            return True
        if count > 1:
            program.loop(feeder, count - 1)
        assert look.plan is not None
        done_step = program.step(feeder, look.plan, look.feeds, look.feed_values)
    except tf.errors.OutOfRangeError:
        return False
    program.pace.note(time.perf_counter() - start, count)
    runner.after_run(look, done_step.fetched, done + count)
    return True
