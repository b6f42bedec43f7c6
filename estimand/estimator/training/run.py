"""Running what was prepared: from the first hook to the last checkpoint."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from estimand.core import voice
from estimand.engine import time_spent
from estimand.engine.checkpoints import api as checkpoints
from estimand.engine.events import EventWriter
from estimand.engine.hook_calls.runner import HookRunner
from estimand.engine.interrupts import Interrupts
from estimand.engine.progress.progress import Progress
from estimand.engine.running.loop import TrainingLoop
from estimand.engine.saving.model_saver import ModelSaver, v1_saver
from estimand.engine.time_spent import TimeSpent
from estimand.engine.tracing.trace import Trace
from estimand.estimator.run_context import NO_STEPS, in_use, keep_policy
from estimand.estimator.training.checkpoint_graph import graph_file
from estimand.estimator.training.hooks import assemble, checkpoint_taker
from estimand.estimator.training.multi_worker import saves_nothing
from estimand.estimator.training.prepared import Prepared, TrainArguments

_log = logging.getLogger("tensorflow")


# A shorter run is over before its input could be made any faster.
_SECONDS_WORTH_A_WORD = 5.0


def run(prepared: Prepared, arguments: TrainArguments, spent: TimeSpent) -> None:
    """Train until the target, the end of input, a hook's wish or a signal."""
    start = prepared.start
    target = arguments.target(prepared.start_step)
    saver = _saver(prepared)
    start.tell_checkpoint(prepared.latest)
    with (
        Interrupts() as interrupts,
        in_use(start.workspace, saver, interrupts),
        _progress(prepared, target) as line,
    ):
        spent.waits_are_noted_by(prepared.program.seconds_waited)
        loop = _train(prepared, arguments, target, saver, interrupts, line.update)
        with time_spent.on(time_spent.CHECKPOINTS):
            saver.wait()
        start.distribution.ended(prepared.trace.stop, interrupts)
    _finish(prepared, loop.last_loss, saver, interrupted=interrupts.received is not None)
    if start.distribution.leads and start.workspace.config.progress is not False:
        _tell_of_waiting(spent.seconds())
    interrupts.leave(loop.global_step(), saved=saver.last_path is not None)


def _train(
    prepared: Prepared,
    arguments: TrainArguments,
    target: int | None,
    saver: ModelSaver,
    interrupts: Interrupts,
    on_block: Callable[[int, Any], None],
) -> TrainingLoop:
    """Run all steps."""
    workspace, distribution = prepared.start.workspace, prepared.start.distribution
    config, live, trace = workspace.config, workspace.live, prepared.trace
    hooks = assemble(trace, config, arguments.hooks)
    save = saver.save if distribution.leads else saves_nothing
    checkpoints = checkpoint_taker(trace, config, hooks, arguments.saving_listeners, save)
    # What hooks add to a graph belongs to the model; eagerly, they have none to add to.
    store = None if trace.runs_eagerly else live.store
    runner = HookRunner(hooks, prepared.session, store=store)
    loop = TrainingLoop(
        prepared,
        runner,
        target_step=target,
        save_checkpoint=save,
        checkpoints=checkpoints,
        interrupts=interrupts,
        on_block=on_block,
    )
    try:
        loop.run()
    except BaseException as error:
        if isinstance(error, tf.errors.OpError):
            prepared.tell_failure()
        runner.failed(error)
        raise
    finally:
        if runner.graph_changed and isinstance(trace, Trace):
            live.drop(trace)
    return loop


def _saver(prepared: Prepared) -> ModelSaver:
    workspace, trace = prepared.start.workspace, prepared.trace
    keep = keep_policy(workspace.config, v1_saver(trace))
    return ModelSaver(
        prepared.session,
        workspace.live.store,
        workspace.model_dir,
        keep,
        prepared.position,
        restored_step=None if prepared.latest is None else prepared.start_step,
        graph_file=lambda: graph_file(trace, workspace.config, keep),
    )


def _progress(prepared: Prepared, target: int | None) -> Progress:
    workspace, start = prepared.start.workspace, prepared.start_step
    progress = workspace.config.progress
    if prepared.start.distribution.leads and progress is not False:
        voice.tell(
            "training from step %s%s in %s",
            f"{start:,}",
            "" if target is None else f" to {target:,}",
            workspace.model_dir,
            about=voice.PROGRESS,
        )
    return Progress(target, start, progress)


def _tell_of_waiting(seconds: Mapping[str, float]) -> None:
    waited, share = seconds.get(time_spent.INPUT, 0.0), time_spent.waiting_share(seconds)
    if share is not None and waited >= _SECONDS_WORTH_A_WORD and time_spent.is_input_bound(seconds):
        voice.tell(
            "input-bound: %.0f %% of the time of the steps went by waiting for batches. Prepare "
            "them in parallel, .map(..., num_parallel_calls=tf.data.AUTOTUNE), or write them once "
            "as TFRecords; more in the documentation, under Speeding up input.",
            100 * share,
        )


def _finish(prepared: Prepared, loss: Any, saver: ModelSaver, *, interrupted: bool) -> None:
    workspace = prepared.start.workspace
    if prepared.start.distribution.leads:
        EventWriter.get(workspace.model_dir).flush()
    if saver.last_path is not None and saver.is_current(saver.last_path):
        workspace.live.store.mark_loaded(saver.origins(saver.last_path))
        if not interrupted:
            checkpoints.mark_meta(saver.last_path, complete=True)
    if loss is None:
        _log.warning(NO_STEPS)
    else:
        _log.info("Loss for final step: %s.", getattr(loss, "numpy", lambda: loss)())
