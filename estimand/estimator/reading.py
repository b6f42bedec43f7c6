"""Which variables evaluate, predict and export read with, and what values they get.

They are those of training as long as nobody trains: then nothing is built or read twice. Whoever
comes while the estimator is being trained gets a model that stands apart. Whoever needs other
values than those in place first lets evaluations and predictions under way keep theirs.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from estimand.engine.checkpoints import api as checkpoints
from estimand.engine.hook_calls.session import TracedSession
from estimand.engine.live_model import LiveModel
from estimand.engine.saving import initialization
from estimand.engine.tracing.trace import Trace
from estimand.estimator.untrained import refuse_or_warn
from estimand.estimator.workspace import Workspace

_log = logging.getLogger("tensorflow")


@contextlib.contextmanager
def model_to_read(workspace: Workspace, *, evaluating: bool = False) -> Iterator[LiveModel]:
    """The model to read with; inside, nobody else begins to use it."""
    main = workspace.live
    with contextlib.ExitStack() as held:
        held.enter_context(main.lock)
        model = workspace.evaluated if evaluating else main
        if model is main and main.is_trained:
            model = workspace.apart(evaluating=evaluating)
            held.close()
        held.enter_context(model.lock)
        gone = model.store.outlived_its_checkpoint and workspace.latest_checkpoint() is None
        model.forget_if(gone)
        yield model


def filled_trace(
    workspace: Workspace,
    model: LiveModel,
    mode: str,
    element_spec: tuple[Any, Any],
    seed: int,
    checkpoint_path: str | None,
    purpose: str,
    *,
    distributed: bool = False,
    untrained: bool = False,
) -> tuple[Trace, str | None]:
    """A trace whose variables have a checkpoint's values, and the path of that checkpoint.

    Where there is none, `untrained` says that initial values will do.
    """
    path = checkpoint_path or workspace.latest_checkpoint()
    trace = model.trace(mode, element_spec, seed, distributed=distributed)
    if path is None:
        in_place = trace.initialized or model.store.only_in_memory
    else:
        in_place = initialization.is_restored(trace, model.store, path)
    # What counts in local variables (metrics) starts anew, too.
    if not in_place or (trace.usage.is_open and trace.variables.local):
        model.part_from_readers()
        trace = model.trace(mode, element_spec, seed, distributed=distributed)
    if path is None:
        refuse_or_warn(workspace, trace, purpose, untrained)
    return trace, _fill(workspace, model, trace, checkpoint_path, path, purpose)


def _fill(
    workspace: Workspace,
    model: LiveModel,
    trace: Trace,
    checkpoint_path: str | None,
    path: str | None,
    purpose: str,
) -> str | None:
    session, store, main = TracedSession(trace), model.store, workspace.live
    if path is not None:
        fall_back = None if checkpoint_path else workspace.model_dir
        return initialization.restore(trace, store, session, path, fall_back=fall_back)
    if store.apart and main.is_trained_here:  # which saves nothing: memory has all there is
        store.take_values_of(main.store, trace.variables)
    elif not trace.initialized and not store.only_in_memory:
        _log.info(
            "Could not find trained model in model_dir: %s, running initialization to %s.",
            workspace.model_dir,
            purpose,
        )
        checkpoints.warn_of_unusable(workspace.model_dir, None)
        initialization.initialize(trace, session, workspace.warm_start)
    return None


def newest_checkpoint(workspace: Workspace) -> str | None:
    """The newest checkpoint; for a hook of training, that may be one still being written."""
    live = workspace.live_if_any
    saver = live.saver if live is not None and live.is_trained_here else None
    if saver is not None and saver.last_path is not None:
        if saver.is_current(saver.last_path):
            return saver.last_path
        saver.wait()
    return workspace.latest_checkpoint()


def wait_for_files(workspace: Workspace) -> None:
    """A hook of training that reads checkpoints finds the newest one whole."""
    live = workspace.live_if_any
    if live is not None and live.is_trained_here and live.saver is not None:
        live.saver.wait()
