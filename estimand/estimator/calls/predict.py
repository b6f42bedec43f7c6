"""One call of `Estimator.predict`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.interpreter.tracebacks import folded
from estimand.core.modes import ModeKeys
from estimand.core.old_code import handed_out
from estimand.engine import block_mode
from estimand.engine.eager.run import EagerTrace
from estimand.engine.eager.session import EagerSession
from estimand.engine.feeding.feeder import Feeder
from estimand.engine.feeding.resident import open_feeder
from estimand.engine.hook_calls.session import TracedSession
from estimand.engine.model_dir import RunRecord
from estimand.engine.running import faults
from estimand.engine.saving import initialization
from estimand.estimator import eager_models
from estimand.estimator.reading import filled_trace, model_to_read, wait_for_files
from estimand.estimator.run_context import block_mode_of_training, engine_scope, model_seed
from estimand.estimator.workspace import Workspace
from estimand.evaluation import prediction_loop
from estimand.inputs.contract import ModelInput


def predict(
    workspace: Workspace,
    input_fn: Callable[..., Any],
    predict_keys: Any,
    hooks: list[Any],
    checkpoint_path: str | None,
    yield_single_examples: bool,
    untrained: bool = False,
) -> Iterator[Any]:
    arguments = (input_fn, predict_keys, hooks, checkpoint_path, yield_single_examples, untrained)
    with folded():
        wait_for_files(workspace)
        yield from _predict(workspace, *arguments)


def _predict(
    workspace: Workspace,
    input_fn: Callable[..., Any],
    predict_keys: Any,
    hooks: list[Any],
    checkpoint_path: str | None,
    yield_single_examples: bool,
    untrained: bool,
) -> Iterator[Any]:
    with engine_scope(workspace):
        given = _call_input_fn(workspace, input_fn)
    run_eagerly = workspace.config.run_eagerly
    start = _start_eagerly if run_eagerly else _start
    with contextlib.ExitStack() as reading, faults.told_plainly(lambda: given, eager=run_eagerly):
        with engine_scope(workspace):
            program, batches = start(
                workspace, given, predict_keys, hooks, checkpoint_path, untrained, reading
            )
        yield from _rows_or_batches(program, _in_eager_mode(batches), yield_single_examples)


def _rows_or_batches(
    program: prediction_loop.PredictProgram, batches: Iterator[Any], yield_single_examples: bool
) -> Iterator[Any]:
    as_asked = prediction_loop.as_rows if yield_single_examples else prediction_loop.as_batches
    return as_asked(program, (tuple(map(handed_out, arrays)) for arrays in batches))


def _call_input_fn(workspace: Workspace, input_fn: Callable[..., Any]) -> ModelInput:
    seed = model_seed(workspace, RunRecord.load(workspace.model_dir))
    workspace.live.seed_input(ModeKeys.PREDICT, seed)
    given = workspace.call_input_fn(input_fn, ModeKeys.PREDICT)
    if given.endless_constant:
        tf_private.warn(
            "Input graph does not use tf.data.Dataset or contain a QueueRunner. That means predict "
            "yields forever. This is probably a mistake."
        )
    return given


def _start(
    workspace: Workspace,
    given: ModelInput,
    predict_keys: Any,
    hooks: list[Any],
    checkpoint_path: str | None,
    untrained: bool,
    reading: contextlib.ExitStack,
) -> tuple[Any, Iterator[Any]]:
    """Everything up to the first batch; the values are this prediction's until `reading` ends."""
    seed = model_seed(workspace, RunRecord.load(workspace.model_dir))
    spec = (given.element_spec[0], None)
    with model_to_read(workspace) as model:
        trace, _ = filled_trace(
            workspace,
            model,
            ModeKeys.PREDICT,
            spec,
            seed,
            checkpoint_path,
            "predict",
            untrained=untrained,
        )
        reading.enter_context(trace.usage.open())
        about_to_write = reading.enter_context(model.let_write(trace))
        initialization.start_locals(trace, TracedSession(trace))
        chosen = prediction_loop.selected_predictions(trace, predict_keys)
        mode = block_mode.of_reading(trace, block_mode_of_training(workspace))
        key = f"predict {mode} {list(map(repr, chosen)) if isinstance(chosen, dict) else ''}"
        program = model.program(
            trace, key, lambda: prediction_loop.PredictProgram(trace, chosen, mode)
        )
    # What a generator gives next may depend on the answers: servers wait in it for requests.
    live = tf_private.comes_from_generator(given.dataset)
    feeder = open_feeder(
        given.dataset, given.unpack, with_labels=False, keep_alive=given, ahead=not live
    )
    all_hooks = [*hooks, *(trace.spec.prediction_hooks or ())]
    if all_hooks:
        return program, prediction_loop.predict_with_hooks(
            trace, program, feeder, all_hooks, about_to_write
        )
    return program, prediction_loop.predict_batches(program, feeder, in_groups=not live)


def _start_eagerly(
    workspace: Workspace,
    given: ModelInput,
    predict_keys: Any,
    hooks: list[Any],
    checkpoint_path: str | None,
    untrained: bool,
    reading: contextlib.ExitStack,
) -> tuple[Any, Iterator[Any]]:
    eager_models.begin(workspace, "predict")
    live, spec = workspace.live, (given.element_spec[0], None)
    seed = model_seed(workspace, RunRecord.load(workspace.model_dir))
    runner = workspace.eager_runner(ModeKeys.PREDICT, seed)

    feeder = Feeder(
        given.dataset,
        given.unpack,
        with_labels=False,
        keep_alive=given,
        ahead=not tf_private.comes_from_generator(given.dataset),
    )

    def select(trace: EagerTrace) -> Any:
        return prediction_loop.selected_predictions(trace, predict_keys)

    def batches(trace: EagerTrace) -> Iterator[Any]:
        all_hooks = [*hooks, *(trace.spec.prediction_hooks or ())]
        calls = eager_models.calls(runner, trace, first, feeder, spec, all_hooks)
        return eager_models.predict_batches(calls, select)

    try:
        first = eager_models.first_step(runner, feeder, spec)
    except tf.errors.OutOfRangeError:
        return eager_models.Keys(None), iter(())
    with eager_models.values_lent(workspace, "predict"):
        trace, path = eager_models.build(
            workspace,
            runner,
            spec,
            first.batch,
            checkpoint_path,
            purpose="predict",
            untrained=untrained,
        )
        chosen = select(trace)
        keys = eager_models.Keys(list(chosen) if isinstance(chosen, dict) else None)
        if live.is_trained:
            return keys, iter(eager_models.all_at_once(given.dataset, lambda: batches(trace)))

    def ensure_values() -> None:
        # Another call may have loaded another checkpoint since the last batch was asked for.
        if path is not None:
            session = EagerSession(trace)
            initialization.restore(trace, runner.store, session, path, fall_back=None)

    return keys, eager_models.in_turn(workspace, batches(trace), ensure_values)


def _in_eager_mode(batches: Iterator[Any]) -> Iterator[Any]:
    """Advance a generator in eager mode, but hand its values out in the caller's."""
    while True:
        with tf_private.eager_mode():
            try:
                value = next(batches)
            except StopIteration:
                return
        yield value
