"""One call of `Estimator.evaluate`."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from estimand.core.errors import InputError
from estimand.core.modes import ModeKeys
from estimand.engine import checkpoints, faults, initialization
from estimand.engine.distributed.replicas import local_replicas
from estimand.engine.eager_run import EagerTrace
from estimand.engine.events import write_eval_results
from estimand.engine.feeding import Feeder
from estimand.engine.metrics import GLOBAL_STEP
from estimand.engine.model import LiveModel
from estimand.engine.model_dir import RunRecord
from estimand.engine.session import TracedSession
from estimand.engine.tracing import Trace
from estimand.estimator import eager
from estimand.estimator.eager_hooks import EagerHooks, EagerSession
from estimand.estimator.surroundings import model_seed
from estimand.evaluation.evaluate import run_evaluation
from estimand.inputs.contract import ModelInput, call_input_fn

if TYPE_CHECKING:
    from estimand.estimator.estimator import Estimator

_log = logging.getLogger("tensorflow")


def evaluate(
    estimator: Estimator,
    input_fn: Callable[..., Any],
    steps: int | None,
    hooks: list[Any],
    checkpoint_path: str | None,
    name: str | None,
    *,
    as_they_are: bool = False,
) -> dict[str, Any]:
    """`as_they_are`: the values that the variables have now, whatever checkpoint there is."""
    if steps is not None:
        steps = math.ceil(steps)  # programs write rows / batch_size
    seed = model_seed(estimator, RunRecord.load(estimator.model_dir))
    estimator._live_model.seed_input(ModeKeys.EVAL, seed)
    estimator._forget_what_is_gone()
    given = call_input_fn(
        input_fn, mode=ModeKeys.EVAL, params=estimator.params, config=estimator.config
    )
    eagerly = estimator._config.run_eagerly
    with faults.told_plainly(lambda: given, eager=eagerly):
        if eagerly:
            path, results = _evaluate_eagerly(
                estimator, given, steps, hooks, checkpoint_path, seed, as_they_are
            )
        else:
            path, results = _evaluate(
                estimator, given, steps, hooks, checkpoint_path, seed, as_they_are
            )
    write_eval_results(estimator.eval_dir(name), results, int(results[GLOBAL_STEP]), path)
    return results


def _evaluate(
    estimator: Estimator,
    given: ModelInput,
    steps: int | None,
    hooks: list[Any],
    checkpoint_path: str | None,
    seed: int,
    as_they_are: bool,
) -> tuple[str | None, dict[str, Any]]:
    live, strategy = estimator._evaluated_model, estimator._config.eval_distribute
    trace = live.trace(ModeKeys.EVAL, given.element_spec, seed, distributed=strategy is not None)
    count = local_replicas(strategy)
    feeder = Feeder(given.dataset, given.unpack, keep_alive=given, replicas=count)
    filled = contextlib.nullcontext() if as_they_are else _filled(estimator, trace, checkpoint_path)
    with filled as path:
        results = run_evaluation(
            live, trace, feeder, steps=steps, hooks=hooks, progress=estimator._config.progress
        )
    return path, results


@contextlib.contextmanager
def _filled(
    estimator: Estimator, trace: Trace, checkpoint_path: str | None
) -> Iterator[str | None]:
    """Inside, the variables have a checkpoint's values; a training in progress is not disturbed.

    The checkpoint that this training has just taken is in place already, even if its files are
    still being written. For any other one, training gets its values back afterwards.
    """
    saver = estimator._live_model.saver
    if saver is not None and estimator._evaluated_model is not estimator._live_model:
        saver.wait()
        saver = None  # training has variables of its own
    if saver is None:
        yield fill_variables(
            estimator, trace, checkpoint_path, "evaluate", estimator._evaluated_model
        )
        return
    path = checkpoint_path or newest_checkpoint(estimator)
    if path is not None and saver.is_current(path) and saver.provides(trace):
        yield path
        return
    saver.wait()
    if path is None:  # training saves none: what is in memory is all there is
        yield None
        return
    with values_kept(estimator):
        yield fill_variables(estimator, trace, path, "evaluate")


def newest_checkpoint(estimator: Estimator) -> str | None:
    """The newest checkpoint; during training that may be one that is still being written."""
    live = getattr(estimator, "_live", None)
    saver = live.saver if live is not None else None
    if saver is not None and saver.last_path is not None:
        if saver.is_current(saver.last_path):
            return saver.last_path
        saver.wait()
    return estimator.latest_checkpoint()


@contextlib.contextmanager
def values_kept(estimator: Estimator) -> Iterator[None]:
    """A training in progress finds its variables afterwards as they were before."""
    store = estimator._live_model.store
    before = [(variable, variable.read_value()) for variable in store.variables()]
    try:
        yield
    finally:
        for variable, value in before:
            variable.assign(value)
        store.mark_changed()  # they are no checkpoint's: training goes on


def _evaluate_eagerly(
    estimator: Estimator,
    given: ModelInput,
    steps: int | None,
    hooks: list[Any],
    checkpoint_path: str | None,
    seed: int,
    as_they_are: bool,
) -> tuple[str | None, dict[str, Any]]:
    runner, spec = estimator._eager_runner(ModeKeys.EVAL, seed), given.element_spec
    try:
        first = Feeder(given.dataset, given.unpack, keep_alive=given).next_batch()
    except tf.errors.OutOfRangeError:
        raise InputError(
            "The input of evaluate is empty. With RunConfig(run_eagerly=True) at least one batch "
            "is needed to build the model: let input_fn give one."
        ) from None
    feeder = Feeder(given.dataset, given.unpack, keep_alive=given)

    def results(trace: EagerTrace) -> dict[str, Any]:
        all_hooks = [*hooks, *(trace.spec.evaluation_hooks or ())]
        calling = EagerHooks(all_hooks, EagerSession(trace))
        return eager.evaluate(eager.watched(runner, feeder, spec, calling, steps))

    if as_they_are:
        return None, results(eager.try_out(runner, spec, first))
    saver = estimator._live_model.saver
    training = contextlib.nullcontext() if saver is None else values_kept(estimator)
    if saver is not None:
        saver.wait()
    path = checkpoint_path or estimator.latest_checkpoint()
    with training:
        return path, results(eager.build(estimator, runner, spec, first, checkpoint_path))


def fill_variables(
    estimator: Estimator,
    trace: Trace,
    checkpoint_path: str | None,
    purpose: str,
    live: LiveModel | None = None,
) -> str | None:
    """Give the variables a checkpoint's values, unless they have them already."""
    live = live or estimator._live_model
    session = TracedSession(trace)
    path = checkpoint_path or estimator.latest_checkpoint()
    if path is None:
        if not trace.initialized and not live.store.only_in_memory:
            _log.info(
                "Could not find trained model in model_dir: %s, running initialization to %s.",
                estimator.model_dir,
                purpose,
            )
            checkpoints.warn_of_unusable(estimator.model_dir, None)
            initialization.initialize(trace, session, estimator._warm_start_settings)
        return None
    fall_back = None if checkpoint_path else estimator.model_dir
    return initialization.restore(trace, live.store, session, path, fall_back=fall_back)
