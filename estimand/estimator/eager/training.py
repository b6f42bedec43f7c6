"""One call of `Estimator.train` with `RunConfig(run_eagerly=True)`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimand.core.modes import ModeKeys
from estimand.engine.checkpoints.saving import DRAWS
from estimand.engine.feeding.feeder import Feeder, InputPosition
from estimand.engine.running.interrupts import Interrupts
from estimand.estimator.eager import phases as eager
from estimand.estimator.eager.hooks import EagerSession
from estimand.estimator.run_context import NO_STEPS, in_use
from estimand.estimator.training_hooks import eager_hooks

_log = logging.getLogger("tensorflow")


def train_eagerly(
    run: Any,
    input_fn: Callable[..., Any],
    hooks: Sequence[Any],
    saving_listeners: Sequence[Any],
    steps: int | None,
    max_steps: int | None,
) -> None:
    """Like `run.loop`, with the model function run in Python at every step."""
    config, store = run.workspace.config, run.workspace.live.store
    given = run._call_input_fn(input_fn)
    tf.random.set_seed(run.seed)
    runner = run.workspace.eager_runner(ModeKeys.TRAIN, run.seed)
    from_scratch = run.latest is None and run.workspace.warm_start is None
    try:
        if from_scratch:
            # There are no variables before the first step. It is run once, taken back so
            # that hooks see the start, and put in place when its turn comes.
            run.feeder = run._feeder(given)
            before = store.values()
            batch = given.unpack(run.feeder.next_element())
            trace = runner.run(*batch)
            first_step = eager.initialized(
                trace, eager.TakenBack.of(trace, before), lambda: runner.run(*batch)
            )
        else:
            first_step = None
            first = Feeder(given.dataset, given.unpack, keep_alive=given).next_batch()
            trace = eager.build(run.workspace, runner, given.element_spec, first)
            # A Dataset that was read from, if only one batch, shuffles anew the next time.
            given = run._again()
            run.feeder = run._feeder(given)
    except tf.errors.OutOfRangeError:
        _log.warning(NO_STEPS)
        return
    if config.save_input_position:
        run.position = InputPosition(run.feeder, given.dataset, resumable=given.resumable)
    store.mark_changed()
    run.start_step = int(trace.global_step.numpy())
    runner.draws.start(int(run.meta.get(DRAWS, run.start_step)))
    saver = run._saver(trace, EagerSession(trace))
    if first_step is not None:
        # A batch has been taken, but not for the checkpoint of the start: no position is
        # saved with it, which stands for the beginning.
        saver.position = None
    run._mark_call_begun()
    all_hooks = eager_hooks(trace.spec, config, hooks, saving_listeners)
    target = run.start_step + steps if steps is not None else max_steps
    with (
        Interrupts() as interrupts,
        in_use(run.workspace, saver, interrupts),
        run._progress(target) as line,
    ):
        loop = eager.EagerLoop(
            runner, run.feeder, given.element_spec, trace, all_hooks, saver.save,
            run.workspace.model_dir, config.log_step_count_steps, first_step,
            after_first_step=lambda: setattr(saver, "position", run.position),
            variables_made=saver.take_in, on_step=line.update,
        )  # fmt: skip
        loop.run(target, interrupts)
        saver.wait()
    run._finish(loop, saver, interrupted=interrupts.received is not None)
    interrupts.leave(loop.global_step(), saved=saver.last_path is not None)
