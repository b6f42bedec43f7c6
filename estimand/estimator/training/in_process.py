"""A run of traced steps in this process, alone or beside others: what it needs, made ready."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from estimand.core import tf_private, voice
from estimand.core.modes import ModeKeys
from estimand.engine.checkpoints import api as checkpoints
from estimand.engine.distribution import Stop
from estimand.engine.feeding.feeder import Feeder, InputPosition
from estimand.engine.hook_calls.session import TracedSession
from estimand.engine.running.program import StepProgram
from estimand.engine.running.ready_run import OnFirstBatch
from estimand.engine.saving import initialization, local_values
from estimand.engine.saving.model_saver import DRAWS
from estimand.engine.tracing.built_model import BuiltModel
from estimand.engine.tracing.trace import Trace
from estimand.estimator.training.block_mode_choice import BlockModeChoice
from estimand.estimator.training.data_checks import DataCheck
from estimand.estimator.training.prepared import Prepared
from estimand.estimator.training.resumed_input import InputPlace
from estimand.estimator.training.starting_point import StartingPoint, TrainingInput
from estimand.inputs.contract import ModelInput


@dataclass(frozen=True, kw_only=True)
class TracedRun(Prepared):
    """Steps of one trace; `variables` are those of the model function.

    So are the `initializers` from checkpoints; None: other values than first ones are in place.
    """

    check: DataCheck
    variables: frozenset[str]
    initializers: Mapping[str, tf.Operation] | None

    def hooks_have_begun(self, hooks: Sequence[Any], target: int | None) -> list[OnFirstBatch]:
        """What hooks added is filled. The first batch is looked through."""
        del hooks, target
        trace = self.trace
        if self.latest is not None and trace.variables.by_name.keys() != self.variables:
            with tf_private.eager_mode():
                initialization.restore_added(trace, self.variables, self.latest)
        if self.initializers is not None:
            initialization.run_initializers(trace, self.session, self.initializers)
        check = self.check.on_first_batch(self.feeder.replicas)
        return [] if check is None else [check]

    def tell_failure(self) -> None:
        self.check.after_failure()


@dataclass(frozen=True, kw_only=True)
class RunInProcess(TracedRun):
    """The steps run here, in blocks."""

    program: StepProgram
    feeder: Feeder

    def changes(self) -> int | None:
        """Of the variables: here, and by nobody but the steps and what hooks run."""
        return self.start.workspace.live.store.changes

    def hooks_have_begun(self, hooks: Sequence[Any], target: int | None) -> list[OnFirstBatch]:
        """Then it is settled how steps are run, for hooks may have added what not every way can
        run; or several ways are tried with the first batch."""
        on_first_batch = super().hooks_have_begun(hooks, target)
        workspace = self.start.workspace
        choice = BlockModeChoice(
            self.program,
            self.feeder,
            self.start.record,
            workspace.config,
            workspace.model_dir,
            hooks,
        )
        choose = choice.make(self.start_step, target)
        return on_first_batch if choose is None else [*on_first_batch, choose]


def prepare(start: StartingPoint, input_fn: TrainingInput) -> RunInProcess:
    """Trace the model function, fill its variables, and bring the input to its place."""
    workspace, distribution = start.workspace, start.distribution
    live, config = workspace.live, workspace.config
    given = input_fn.call()
    trace = live.trace(
        ModeKeys.TRAIN, given.element_spec, start.seed, distributed=distribution.is_strategy
    )
    session = TracedSession(trace)
    check = DataCheck(trace, given, wanted=config.check_data)
    latest, meta = fill_variables(start, trace, session)
    initializers = initializers_run(start, trace)
    distribution.team.take_from_chief(list(trace.variables.saved().values()))
    feeder = feeder_at(start, given, input_fn.call, latest, meta, trace.stop)
    connect(start, session, feeder.next_batch)
    initialization.start_locals(trace, session)
    put_back_locals(start, trace, latest, meta)
    start_step = int(trace.global_step.numpy())
    if trace.draws is not None:
        trace.draws.start(int(meta.get(DRAWS, start_step)))
    position = None
    if config.save_input_position:
        resumable = given.resumable and feeder.has_position
        position = InputPosition(feeder, given.dataset, resumable=resumable)

    def program() -> StepProgram:
        targets = [trace.spec.train_op, *trace.step_effects]
        return StepProgram(trace, targets, trace.spec.loss, times_input=True)

    return RunInProcess(
        start=start,
        latest=latest,
        program=live.program(trace, "train", program),
        session=session,
        feeder=feeder,
        position=position,
        start_step=start_step,
        max_steps_per_call=config.max_steps_per_call,
        check=check,
        variables=frozenset(trace.variables.by_name),
        initializers=initializers,
    )


def initializers_run(start: StartingPoint, trace: Trace) -> Mapping[str, tf.Operation] | None:
    """Those from checkpoints, just after filling; None if the values are not first ones."""
    if start.latest is not None or start.workspace.live.store.only_in_memory:
        return None
    return initialization.initializers_set(trace)


def fill_variables(
    start: StartingPoint, trace: Trace, session: TracedSession
) -> tuple[str | None, Mapping[str, Any]]:
    """Give variables their first values; the checkpoint that these are from, and its notes."""
    workspace, store = start.workspace, start.workspace.live.store
    if not start.distribution.leads:  # the values come from the chief
        initialization.initialize(trace, session, None)
        return None, {}
    if start.latest is None:
        if not store.only_in_memory:
            checkpoints.warn_of_unusable(workspace.model_dir, None)
            initialization.initialize(trace, session, workspace.warm_start)
        return None, start.meta
    used = initialization.restore(
        trace,
        store,
        session,
        start.latest,
        fall_back=workspace.model_dir,
        on_read=lambda path: voice.tell("resumed from %s", path),
    )
    if used != start.latest:  # the newest was damaged: its input position is no use, either
        return used, checkpoints.read_meta(used) or {}
    return used, start.meta


def feeder_at(
    start: StartingPoint,
    given: ModelInput,
    again: Callable[[], ModelInput],
    latest: str | None,
    meta: Mapping[str, Any],
    stop: Stop,
) -> Feeder:
    """The input, at the place where the last call was interrupted or at its start."""
    distribution = start.distribution
    resumes = start.resumes and start.workspace.config.save_input_position
    where = meta.get("input") if resumes and distribution.leads else None
    place = InputPlace.at(where, given, latest)
    [batches] = distribution.team.from_chief([place.batches])  # what the chief skips, all do
    if not distribution.leads:
        place = InputPlace(batches)
    return place.feeder(given, again, distribution, stop)


def put_back_locals(
    start: StartingPoint, trace: BuiltModel, latest: str | None, meta: Mapping[str, Any]
) -> dict[str, Any]:
    """A call that goes on in the place of another has its local variables, too: these."""
    names = meta.get(local_values.NAMES)
    if start.resumes and latest is not None and names:
        return local_values.put_back(trace, latest, names)
    return {}


def connect(
    start: StartingPoint, session: TracedSession, next_batch: Callable[[], list[tf.Tensor]]
) -> None:
    """Let what hooks run in their session take batches, and count as a change of the values."""
    store = start.workspace.live.store
    session.next_batch = next_batch
    session.on_run = store.mark_changed
    store.mark_changed()
