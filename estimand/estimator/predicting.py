"""One call of `Estimator.predict`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.modes import ModeKeys
from estimand.engine import faults, initialization
from estimand.engine.feeding import Feeder
from estimand.engine.model_dir import RunRecord
from estimand.engine.session import TracedSession
from estimand.estimator import eager
from estimand.estimator.eager_hooks import EagerHooks, EagerSession
from estimand.estimator.evaluating import fill_variables, values_kept
from estimand.estimator.surroundings import engine_scope, model_seed
from estimand.evaluation import predict as prediction
from estimand.inputs.contract import ModelInput, call_input_fn

if TYPE_CHECKING:
    from estimand.estimator.estimator import Estimator


def predict(
    estimator: Estimator,
    input_fn: Callable[..., Any],
    predict_keys: Any,
    hooks: list[Any],
    checkpoint_path: str | None,
    yield_single_examples: bool,
) -> Iterator[Any]:
    arguments = (input_fn, predict_keys, hooks, checkpoint_path, yield_single_examples)
    saver = estimator._live_model.saver
    if saver is None:
        yield from _predict(estimator, *arguments)
        return
    # During training, whose variables have to be as they were when it goes on: all at once.
    saver.wait()
    with engine_scope(estimator), values_kept(estimator):
        everything = list(_predict(estimator, *arguments))
    yield from everything


def _predict(
    estimator: Estimator,
    input_fn: Callable[..., Any],
    predict_keys: Any,
    hooks: list[Any],
    checkpoint_path: str | None,
    yield_single_examples: bool,
) -> Iterator[Any]:
    with engine_scope(estimator):
        given = _call_input_fn(estimator, input_fn)
    with faults.told_plainly(lambda: given, eager=estimator._config.run_eagerly):
        with engine_scope(estimator):
            program, batches = _start(estimator, given, predict_keys, hooks, checkpoint_path)
        yield from _rows_or_batches(program, _in_eager_mode(batches), yield_single_examples)


def _rows_or_batches(
    program: Any, batches: Iterator[Any], yield_single_examples: bool
) -> Iterator[Any]:
    as_asked = prediction.as_rows if yield_single_examples else prediction.as_batches
    return as_asked(program, batches)


def _call_input_fn(estimator: Estimator, input_fn: Callable[..., Any]) -> ModelInput:
    seed = model_seed(estimator, RunRecord.load(estimator.model_dir))
    estimator._live_model.seed_input(ModeKeys.PREDICT, seed)
    estimator._forget_what_is_gone()
    given = call_input_fn(
        input_fn, mode=ModeKeys.PREDICT, params=estimator.params, config=estimator.config
    )
    if given.endless_constant:
        tf_private.warn(
            "Input graph does not use tf.data.Dataset or contain a QueueRunner. That means predict "
            "yields forever. This is probably a mistake."
        )
    return given


def _start(
    estimator: Estimator,
    given: ModelInput,
    predict_keys: Any,
    hooks: list[Any],
    checkpoint_path: str | None,
) -> tuple[Any, Iterator[Any]]:
    seed = model_seed(estimator, RunRecord.load(estimator.model_dir))
    features_spec, _ = given.element_spec
    if estimator._config.run_eagerly:
        return _start_eagerly(estimator, given, predict_keys, hooks, checkpoint_path, seed)
    live = estimator._live_model
    trace = live.trace(ModeKeys.PREDICT, (features_spec, None), seed)
    path = fill_variables(estimator, trace, checkpoint_path, purpose="predict")
    initialization.start_locals(trace, TracedSession(trace))
    chosen = prediction.selected_predictions(trace, predict_keys)
    key = f"predict {list(map(repr, chosen)) if isinstance(chosen, dict) else ''}"
    program = live.program(trace, key, lambda: prediction.PredictProgram(trace, chosen))
    feeder = Feeder(given.dataset, given.unpack, with_labels=False, keep_alive=given)

    def ensure_values() -> None:
        # Another call may have loaded another checkpoint since the last batch was asked for.
        if path is not None:
            initialization.restore(trace, live.store, TracedSession(trace), path, fall_back=None)

    all_hooks = [*hooks, *(trace.spec.prediction_hooks or ())]
    if all_hooks:
        return program, prediction.predict_with_hooks(trace, program, feeder, all_hooks)
    return program, prediction.predict_batches(program, feeder, ensure_values)


def _start_eagerly(
    estimator: Estimator,
    given: ModelInput,
    predict_keys: Any,
    hooks: list[Any],
    checkpoint_path: str | None,
    seed: int,
) -> tuple[Any, Iterator[Any]]:
    spec = (given.element_spec[0], None)
    runner = estimator._eager_runner(ModeKeys.PREDICT, seed)

    def feeder() -> Feeder:
        return Feeder(given.dataset, given.unpack, with_labels=False, keep_alive=given)

    try:
        first = feeder().next_batch()
    except tf.errors.OutOfRangeError:
        return eager.Keys(None), iter(())
    trace = eager.build(estimator, runner, spec, first, checkpoint_path)
    keys = prediction.selected_predictions(trace, predict_keys)
    all_hooks = [*hooks, *(trace.spec.prediction_hooks or ())]
    calls = eager.watched(runner, feeder(), spec, EagerHooks(all_hooks, EagerSession(trace)))
    batches = eager.predict_batches(
        calls, lambda t: prediction.selected_predictions(t, predict_keys)
    )
    return eager.Keys(list(keys) if isinstance(keys, dict) else None), batches


def _in_eager_mode(batches: Iterator[Any]) -> Iterator[Any]:
    """Advance a generator in eager mode, but hand its values out in the caller's."""
    while True:
        with tf_private.eager_mode():
            try:
                value = next(batches)
            except StopIteration:
                return
        yield value
