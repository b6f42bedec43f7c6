"""Running what was prepared: from the first hook to the last checkpoint."""

from __future__ import annotations

import logging

from estimand.core import voice
from estimand.engine.checkpoints import api as checkpoints
from estimand.engine.checkpoints.saving import ModelSaver, v1_saver
from estimand.engine.events import EventWriter
from estimand.engine.progress.progress import Progress
from estimand.engine.running.interrupts import Interrupts
from estimand.estimator.run_context import NO_STEPS, in_use, make_writer
from estimand.estimator.training.checkpoint_graph import graph_file
from estimand.estimator.training.prepared import Ended, Prepared, Wishes

_log = logging.getLogger("tensorflow")


def run(prepared: Prepared, wishes: Wishes) -> None:
    """Train until the target, the end of input, a hook's wish or a signal."""
    begun = prepared.begun
    target = wishes.target(prepared.start_step)
    saver = _saver(prepared)
    begun.tell_checkpoint(prepared.latest)
    with (
        Interrupts() as interrupts,
        in_use(begun.workspace, saver, interrupts),
        _progress(prepared, target) as line,
    ):
        ended = prepared.train(wishes, target, saver, interrupts, line.update)
        saver.wait()
        begun.distribution.ended(prepared.trace, interrupts)
    _finish(prepared, ended, saver, interrupted=interrupts.received is not None)
    interrupts.leave(ended.global_step(), saved=saver.last_path is not None)


def _saver(prepared: Prepared) -> ModelSaver:
    workspace, trace = prepared.begun.workspace, prepared.trace
    saver, store = v1_saver(trace), workspace.live.store
    return ModelSaver(
        trace,
        prepared.session,
        lambda directory, basename: make_writer(workspace, directory, basename, saver),
        workspace.model_dir,
        prepared.position,
        changes=lambda: store.changes,
        restored_step=None if prepared.latest is None else prepared.start_step,
        graph_file=lambda: graph_file(trace, workspace.config),
    )


def _progress(prepared: Prepared, target: int | None) -> Progress:
    workspace, start = prepared.begun.workspace, prepared.start_step
    progress = workspace.config.progress
    if prepared.begun.distribution.leads and progress is not False:
        voice.tell(
            "training from step %s%s in %s",
            f"{start:,}",
            "" if target is None else f" to {target:,}",
            workspace.model_dir,
            about=voice.PROGRESS,
        )
    return Progress(target, start, progress)


def _finish(prepared: Prepared, ended: Ended, saver: ModelSaver, *, interrupted: bool) -> None:
    workspace = prepared.begun.workspace
    if prepared.begun.distribution.leads:
        EventWriter.get(workspace.model_dir).flush()
    if saver.last_path is not None and saver.is_current(saver.last_path):
        workspace.live.store.mark_loaded(saver.origins(saver.last_path))
        if not interrupted:
            checkpoints.mark_meta(saver.last_path, complete=True)
    if ended.last_loss is None:
        _log.warning(NO_STEPS)
    else:
        loss = ended.last_loss
        _log.info("Loss for final step: %s.", getattr(loss, "numpy", lambda: loss)())
