"""A run with `RunConfig(run_eagerly=True)`: the model function runs in Python at every step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from estimand.core.modes import ModeKeys
from estimand.engine.checkpoints.saving import DRAWS, ModelSaver
from estimand.engine.eager.run import EagerRunner, EagerTrace
from estimand.engine.feeding.feeder import Feeder, InputPosition
from estimand.engine.running.interrupts import Interrupts
from estimand.estimator.eager import phases
from estimand.estimator.eager.hooks import EagerSession
from estimand.estimator.training.begun import Begun, TrainingInput
from estimand.estimator.training.hooks import eager_hooks
from estimand.estimator.training.in_process import feeder_at, put_back_locals
from estimand.estimator.training.prepared import Prepared, Wishes
from estimand.inputs.contract import ModelInput


class NoBatchError(Exception):
    """The input is empty, so the model function was never called."""


@dataclass(frozen=True, kw_only=True)
class EagerRun(Prepared):
    """Steps one by one. `first_step` was taken already, and waits to be put in place."""

    trace: EagerTrace
    session: EagerSession
    runner: EagerRunner
    feeder: Feeder
    element_spec: Any
    first_step: phases.TakenBack | phases.RunAgain | None

    def train(
        self,
        wishes: Wishes,
        target: int | None,
        saver: ModelSaver,
        interrupts: Interrupts,
        on_block: Callable[[int, Any], None],
    ) -> phases.EagerLoop:
        config = self.begun.workspace.config
        if self.first_step is not None:
            # A batch has been taken, but not for the checkpoint of the start: no position is
            # saved with it, which stands for the beginning.
            saver.position = None
        loop = phases.EagerLoop(
            self.runner,
            self.feeder,
            self.element_spec,
            self.trace,
            eager_hooks(self.trace.spec, config, wishes.hooks, wishes.saving_listeners),
            saver.save,
            self.begun.workspace.model_dir,
            config.log_step_count_steps,
            self.first_step,
            after_first_step=lambda: setattr(saver, "position", self.position),
            variables_made=saver.take_in,
            on_step=on_block,
        )
        loop.run(target, interrupts)
        return loop


def prepare(begun: Begun, input_fn: TrainingInput) -> EagerRun:
    """Make the variables, which takes a batch, and bring the input to its place."""
    workspace = begun.workspace
    given = input_fn.call()
    tf.random.set_seed(begun.seed)
    runner = workspace.eager_runner(ModeKeys.TRAIN, begun.seed)
    make = _from_scratch if begun.latest is None and workspace.warm_start is None else _filled
    try:
        trace, feeder, given, first_step = make(begun, input_fn, given, runner)
    except tf.errors.OutOfRangeError:
        raise NoBatchError from None
    workspace.live.store.mark_changed()
    start_step = int(trace.global_step.numpy())
    runner.draws.start(int(begun.meta.get(DRAWS, start_step)))
    position = None
    if workspace.config.save_input_position:
        position = InputPosition(feeder, given.dataset, resumable=given.resumable)
    return EagerRun(
        begun=begun,
        latest=begun.latest,
        trace=trace,
        session=EagerSession(trace),
        position=position,
        start_step=start_step,
        runner=runner,
        feeder=feeder,
        element_spec=given.element_spec,
        first_step=first_step,
    )


_Made = tuple[EagerTrace, Feeder, ModelInput, phases.TakenBack | phases.RunAgain | None]


def _from_scratch(
    begun: Begun, input_fn: TrainingInput, given: ModelInput, runner: EagerRunner
) -> _Made:
    """There are no variables before the first step. It is run once, taken back so that hooks see
    the start, and put in place when its turn comes."""
    feeder = feeder_at(begun, given, input_fn.call, None, begun.meta)
    before = begun.workspace.live.store.values()
    batch = given.unpack(feeder.next_element())
    trace = runner.run(*batch)
    first_step = phases.initialized(
        trace, phases.TakenBack.of(trace, before), lambda: runner.run(*batch)
    )
    return trace, feeder, given, first_step


def _filled(begun: Begun, input_fn: TrainingInput, given: ModelInput, runner: EagerRunner) -> _Made:
    """Variables with the values of a checkpoint or a warm start, made on a batch of no account."""
    first = Feeder(given.dataset, given.unpack, keep_alive=given).next_batch()
    trace = phases.build(begun.workspace, runner, given.element_spec, first)
    # A Dataset that was read from, if only one batch, shuffles anew the next time.
    given = input_fn.call()
    feeder = feeder_at(begun, given, input_fn.call, begun.latest, begun.meta)
    put_back_locals(begun, trace, begun.latest, begun.meta)
    return trace, feeder, given, None
