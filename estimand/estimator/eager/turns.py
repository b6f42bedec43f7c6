"""With `run_eagerly=True` one thing runs at a time: the model function finds its variables by name.

No other variables can be put in their place, as with a trace. So calls take turns, from batch to
batch, and what cannot be right is refused in one sentence.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from estimand.core.errors import ModelBusyError
from estimand.engine.tracing.live_model import LiveModel
from estimand.estimator.workspace import Workspace


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
