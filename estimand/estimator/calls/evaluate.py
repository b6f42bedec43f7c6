"""One call of `Estimator.evaluate`."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.core import voice
from estimand.core.errors import InputError
from estimand.core.modes import ModeKeys
from estimand.engine import time_spent
from estimand.engine.distributed.distribution import distribution_of
from estimand.engine.eager.run import EagerTrace
from estimand.engine.events import write_eval_results
from estimand.engine.feeding.feeder import Feeder
from estimand.engine.feeding.resident import open_feeder
from estimand.engine.live_model import LiveModel
from estimand.engine.metrics import GLOBAL_STEP, as_python_numbers
from estimand.engine.model_dir import RunRecord
from estimand.engine.progress.results import in_one_line
from estimand.engine.running import faults
from estimand.engine.tracing.trace import Trace
from estimand.estimator import eager_models
from estimand.estimator.reading import (
    filled_trace,
    model_to_read,
    newest_checkpoint,
    wait_for_files,
)
from estimand.estimator.run_context import block_mode_of_training, model_seed
from estimand.estimator.workspace import Workspace
from estimand.evaluation.evaluation_loop import run_evaluation
from estimand.export.deriving import TrainedOn
from estimand.inputs.contract import ModelInput


@time_spent.on(time_spent.EVALUATION)
def evaluate(
    workspace: Workspace,
    input_fn: Callable[..., Any],
    steps: int | None,
    hooks: list[Any],
    checkpoint_path: str | None,
    eval_dir: str,
    name: str | None,
    *,
    as_they_are: bool = False,
) -> dict[str, Any]:
    """Metrics, also written to `eval_dir`.

    `as_they_are`: the values that the variables have now, whatever checkpoint there is.
    """
    if steps is not None:
        steps = math.ceil(steps)  # programs write rows / batch_size
    seed = model_seed(workspace, RunRecord.load(workspace.model_dir))
    workspace.live.seed_input(ModeKeys.EVAL, seed)
    given = workspace.call_input_fn(input_fn, ModeKeys.EVAL)
    workspace.trained_on = workspace.trained_on or TrainedOn.of(given)
    run_eagerly = workspace.config.run_eagerly
    with faults.told_plainly(lambda: given, eager=run_eagerly):
        if run_eagerly:
            path, results = _evaluate_eagerly(
                workspace, given, steps, hooks, checkpoint_path, seed, as_they_are
            )
        else:
            path, results = _evaluate(
                workspace, given, steps, hooks, checkpoint_path, seed, as_they_are
            )
    step = int(results[GLOBAL_STEP])
    write_eval_results(eval_dir, results, step, path)
    results = as_python_numbers(results)
    of_name = f" ({name})" if name else ""
    told = in_one_line(results)
    voice.tell("evaluated step %s%s: %s", f"{step:,}", of_name, told, about=voice.EVALUATION)
    return results


def _evaluate(
    workspace: Workspace,
    given: ModelInput,
    steps: int | None,
    hooks: list[Any],
    checkpoint_path: str | None,
    seed: int,
    as_they_are: bool,
) -> tuple[str | None, dict[str, Any]]:
    count = distribution_of(workspace.config.eval_distribute).replicas
    feeder = open_feeder(given.dataset, given.unpack, keep_alive=given, replicas=count)
    progress = workspace.config.progress
    with contextlib.ExitStack() as reading:
        opened = _opened(workspace, given.element_spec, seed, checkpoint_path, as_they_are, reading)
        model, trace, path, about_to_write = opened
        return path, run_evaluation(
            model,
            trace,
            feeder,
            steps=steps,
            hooks=hooks,
            progress=progress,
            of_training=block_mode_of_training(workspace),
            about_to_write=about_to_write,
        )


def _opened(
    workspace: Workspace,
    element_spec: Any,
    seed: int,
    checkpoint_path: str | None,
    as_they_are: bool,
    reading: contextlib.ExitStack,
) -> tuple[LiveModel, Trace, str | None, Callable[[], None]]:
    """The trace to evaluate, with the values to be evaluated, until `reading` ends.

    Also gives what is to be called before hooks write.
    """
    distributed = workspace.config.eval_distribute is not None
    trace: Trace | None = None
    path: str | None = None
    with contextlib.ExitStack() as starting:
        live = workspace.live
        if as_they_are or (live.is_trained_here and workspace.evaluated is live):
            live = workspace.evaluated
            trace = _current_trace(live, element_spec, seed, distributed)
            path = None if as_they_are else checkpoint_path or newest_checkpoint(workspace)
            if not (as_they_are or path is None or _has_just_saved(live, path, trace)):
                trace = None
        if trace is None:
            wait_for_files(workspace)
            live = starting.enter_context(model_to_read(workspace, evaluating=True))
            trace, path = filled_trace(
                workspace,
                live,
                ModeKeys.EVAL,
                element_spec,
                seed,
                checkpoint_path,
                "evaluate",
                distributed=distributed,
            )
        reading.enter_context(trace.usage.open())
        about_to_write = reading.enter_context(live.let_write(trace))
    return live, trace, path, about_to_write


def _current_trace(live: LiveModel, element_spec: Any, seed: int, distributed: bool) -> Trace:
    """A trace that nobody else counts with, of the values as they are."""
    trace = live.trace(ModeKeys.EVAL, element_spec, seed, distributed=distributed)
    if trace.usage.is_open:  # by an evaluation one of whose hooks evaluates
        live.part_from_readers()
        trace = live.trace(ModeKeys.EVAL, element_spec, seed, distributed=distributed)
    return trace


def _has_just_saved(live: LiveModel, path: str, trace: Trace) -> bool:
    """Whether training has the values of a checkpoint in place, be its files written or not."""
    return live.saver is not None and live.saver.is_current(path) and live.saver.provides(trace)


def _evaluate_eagerly(
    workspace: Workspace,
    given: ModelInput,
    steps: int | None,
    hooks: list[Any],
    checkpoint_path: str | None,
    seed: int,
    as_they_are: bool,
) -> tuple[str | None, dict[str, Any]]:
    eager_models.begin(workspace, "evaluate")
    runner, spec = workspace.eager_runner(ModeKeys.EVAL, seed), given.element_spec
    feeder = Feeder(given.dataset, given.unpack, keep_alive=given)
    try:
        first = eager_models.first_step(runner, feeder, spec)
    except tf.errors.OutOfRangeError:
        raise InputError(
            "The input of evaluate is empty. With RunConfig(run_eagerly=True) at least one batch "
            "is needed to build the model: let input_fn give one."
        ) from None

    def results(trace: EagerTrace) -> dict[str, Any]:
        all_hooks = [*hooks, *(trace.spec.evaluation_hooks or ())]
        calls = eager_models.calls(runner, trace, first, feeder, spec, all_hooks, steps)
        return eager_models.evaluate(calls)

    if as_they_are:
        return None, results(eager_models.try_out(runner, spec, first.batch))
    wait_for_files(workspace)
    with eager_models.values_lent(workspace, "evaluate"):
        trace, path = eager_models.build(
            workspace, runner, spec, first.batch, checkpoint_path, purpose="evaluate"
        )
        return path, results(trace)
