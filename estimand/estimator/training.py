"""One call of `Estimator.train`: put the parts together, run the loop, leave the disk in order."""

from __future__ import annotations

import functools
import logging
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from estimand.core import tf_private, voice
from estimand.core.errors import ConfigError
from estimand.core.modes import ModeKeys
from estimand.engine.checkpoints import api as checkpoints
from estimand.engine.checkpoints import initialization
from estimand.engine.checkpoints.saving import DRAWS, ModelSaver, v1_saver
from estimand.engine.distributed.inputs import input_context, own_share
from estimand.engine.distributed.lookahead import LookaheadFeeder
from estimand.engine.distributed.parameter_servers import in_sync, losses_told, uses_servers
from estimand.engine.distributed.parameter_servers_program import ServedProgram
from estimand.engine.distributed.replicas import local_replicas
from estimand.engine.distributed.team import Team
from estimand.engine.events import EventWriter
from estimand.engine.feeding.feeder import Feeder, InputPosition
from estimand.engine.hook_calls.runner import HookRunner
from estimand.engine.hook_calls.session import TracedSession
from estimand.engine.model_dir import RunRecord
from estimand.engine.progress.progress import Progress
from estimand.engine.running import faults
from estimand.engine.running.interrupts import Interrupts
from estimand.engine.running.loop import OnFirstBatch, TrainingLoop
from estimand.engine.running.program import StepProgram
from estimand.engine.tracing.trace import Trace
from estimand.estimator import multi_worker as teamwork
from estimand.estimator import parameter_server_training as served
from estimand.estimator.block_mode_choice import BlockModeChoice
from estimand.estimator.checkpoint_graph import graph_file
from estimand.estimator.data_checks import DataCheck
from estimand.estimator.eager.training import train_eagerly
from estimand.estimator.resumed_input import Start
from estimand.estimator.run_context import NO_STEPS, in_use, make_writer, model_seed
from estimand.estimator.training_hooks import assemble
from estimand.export.deriving import TrainedOn
from estimand.inputs.contract import ModelInput, call_input_fn

if TYPE_CHECKING:
    from estimand.estimator.estimator import Estimator

_log = logging.getLogger("tensorflow")


def _tell_that_all_is_done(estimator: Estimator, latest: str | None, max_steps: Any) -> None:
    step = checkpoints.checkpoint_step(latest) if latest else max_steps
    logging.getLogger("estimand").warning(
        "train: nothing to do, %s stands at step %s already (max_steps=%s). To train on, give a "
        "larger max_steps, or steps=...; to begin anew, another model_dir.",
        estimator.model_dir,
        step,
        max_steps,
    )


def train(
    estimator: Estimator,
    input_fn: Callable[..., Any],
    *,
    hooks: list[Any],
    steps: int | None,
    max_steps: int | None,
    saving_listeners: list[Any],
) -> None:
    strategy, eagerly = estimator._config.train_distribute, estimator._config.run_eagerly
    if strategy is not None and eagerly:
        raise ConfigError(
            "RunConfig(run_eagerly=True) runs model_fn in this process alone; it does not go "
            f"together with train_distribute={strategy!r}. Leave one of them out."
        )
    team = Team.of(in_sync(strategy))
    with (
        teamwork.model_dir_of(estimator, team) as latest,
        teamwork.losses_told(team),
        losses_told(strategy),
    ):
        done = max_steps and latest and checkpoints.checkpoint_step(latest) >= max_steps
        if teamwork.chief_says(team, bool(done)):
            _log.info("Skipping training since max_steps has already saved.")
            _tell_that_all_is_done(estimator, latest, max_steps)
            return
        run = _Run.start(estimator, latest, team)
        with (
            estimator._live_model.training(),
            faults.told_plainly(lambda: run.given, eager=eagerly),
        ):
            if uses_servers(strategy):
                served.prepare(run, input_fn)
                run.loop(hooks, saving_listeners, steps, max_steps)
            elif eagerly:
                train_eagerly(run, input_fn, hooks, saving_listeners, steps, max_steps)
            else:
                run.prepare(input_fn)
                run.loop(hooks, saving_listeners, steps, max_steps)


@dataclass
class _Run:
    """The state of one training call."""

    estimator: Estimator
    latest: str | None
    record: RunRecord
    meta: dict[str, Any]
    seed: int
    team: Team | None = None
    given: ModelInput | None = None
    trace: Trace | None = None
    feeder: Feeder | None = None
    session: TracedSession | None = None
    position: InputPosition | None = None
    _again: Callable[[], ModelInput] | None = None  # calls the input function once more
    _data_check: DataCheck | None = None
    start_step: int = 0
    # Whether the last call was interrupted, so that this one goes on in its place. Settled at
    # the start: the seed of the input depends on it.
    resumes: bool = False

    @classmethod
    def start(cls, estimator: Estimator, latest: str | None, team: Team | None) -> _Run:
        if team is not None and not team.is_chief:
            plan = teamwork.follow(team)
            estimator._live_model.forget_if(plan.forget)
            return cls(estimator, None, plan.record, {}, plan.seed, team, resumes=plan.resumes)
        record = RunRecord.load(estimator.model_dir)
        meta = (checkpoints.read_meta(latest) if latest else None) or {}
        run = cls(estimator, latest, record, meta, model_seed(estimator, record), team)
        interrupted = bool(meta) and not meta.get("complete", True)
        # Where workers do not wait for each other, there is no one place in the input to go on.
        interrupted &= not uses_servers(estimator._config.train_distribute)
        run.resumes = interrupted and "input_seed" in record.extra
        if not run.resumes:
            # A new call begins its input anew, in an order of its own; a resumed one repeats
            # the order of the call that was interrupted.
            fixed = estimator._config.tf_random_seed is not None
            record.extra["input_seed"] = run.seed if fixed else secrets.randbits(31)
            record.block_mode = None
            record.extra.pop("block_mode_from_step", None)
        record.save(estimator.model_dir)
        if team is not None:
            teamwork.lead(team, estimator, record, run.seed, resumes=run.resumes)
        return run

    @property
    def leads(self) -> bool:
        """Whether this process writes to model_dir."""
        return self.team is None or self.team.is_chief

    # Before the first step

    def prepare(self, input_fn: Callable[..., Any]) -> None:
        estimator, live = self.estimator, self.estimator._live_model
        given = self._call_input_fn(input_fn)
        self.trace = live.trace(
            ModeKeys.TRAIN,
            given.element_spec,
            self.seed,
            distributed=estimator._config.train_distribute is not None,
        )
        self.session = TracedSession(self.trace)
        self._data_check = DataCheck(self.trace, given, wanted=estimator._config.check_data)
        self._fill_variables()
        if self.team is not None:
            self.team.take_from_chief(list(self.trace.variables.saved().values()))
        self.feeder = self._feeder(given)
        self.session.next_batch = self.feeder.next_batch
        self.session.on_run = live.store.mark_changed
        if estimator._config.save_input_position:
            resumable = given.resumable and not isinstance(self.feeder, LookaheadFeeder)
            self.position = InputPosition(self.feeder, given.dataset, resumable=resumable)
        initialization.start_locals(self.trace, self.session)
        live.store.mark_changed()
        self.start_step = int(self.trace.global_step.numpy())
        if self.trace.draws is not None:
            self.trace.draws.start(int(self.meta.get(DRAWS, self.start_step)))

    def _call_input_fn(self, input_fn: Callable[..., Any]) -> ModelInput:
        estimator = self.estimator
        if self.leads:
            estimator._forget_what_is_gone()
        input_seed = self.record.extra.get("input_seed", self.seed)
        estimator._live_model.seed_input(ModeKeys.TRAIN, input_seed)
        self.given = call_input_fn(
            input_fn,
            mode=ModeKeys.TRAIN,
            params=estimator.params,
            config=estimator.config,
            input_context=input_context(estimator._config.train_distribute),
        )
        estimator._trained_on = TrainedOn.of(self.given)
        self.given = own_share(self.given, input_fn, estimator._config.train_distribute)
        self._again = functools.partial(self._call_input_fn, input_fn)
        return self.given

    def _feeder(self, given: ModelInput) -> Feeder:
        config = self.estimator._config
        resumes = self.resumes and config.save_input_position
        where = self.meta.get("input") if resumes and self.leads else None
        start = Start.at(where, given, self.latest)
        if self.team is not None:  # what the chief has to skip, all do
            [batches] = self.team.from_chief([start.batches])
            start = start if self.leads else Start(batches)
        assert self._again is not None
        stop = self.trace.stop if self.trace is not None else None
        return start.feeder(given, self._again, local_replicas(config.train_distribute), stop)

    def _fill_variables(self) -> None:
        assert self.trace is not None and self.session is not None
        store = self.estimator._live_model.store
        if not self.leads:  # the values come from the chief
            initialization.initialize(self.trace, self.session, None)
            return
        if self.latest is None:
            if not store.only_in_memory:
                checkpoints.warn_of_unusable(self.estimator.model_dir, None)
                initialization.initialize(
                    self.trace, self.session, self.estimator._warm_start_settings
                )
            return
        used = initialization.restore(
            self.trace,
            store,
            self.session,
            self.latest,
            fall_back=self.estimator.model_dir,
            on_read=lambda path: voice.tell("resumed from %s", path),
        )
        if used != self.latest:  # the newest was damaged: its input position is no use, either
            self.latest, self.meta = used, checkpoints.read_meta(used) or {}

    # The loop

    def loop(
        self,
        hooks: Sequence[Any],
        saving_listeners: Sequence[Any],
        steps: int | None,
        max_steps: int | None,
    ) -> None:
        trace, feeder, session = self.trace, self.feeder, self.session
        check = self._data_check
        assert trace and feeder and session and check
        config = self.estimator._config
        target = self.start_step + steps if steps is not None else max_steps
        saver = self._saver(trace, session)
        self._mark_call_begun()
        program = self._program(trace)
        all_hooks = assemble(trace, config, hooks, saving_listeners)
        choice = BlockModeChoice(
            program, feeder, self.record, config, self.estimator.model_dir, all_hooks
        )
        store = self.estimator._live_model.store
        runner = HookRunner(all_hooks, trace, session, store=store)
        before_hooks = set(trace.variables.by_name)

        def after_begin() -> OnFirstBatch | None:
            if self.latest is not None and set(trace.variables.by_name) != before_hooks:
                with tf_private.eager_mode():
                    initialization.restore_added(trace, before_hooks, self.latest)
            # Now that the graph is complete: hooks may have added what not every way can run.
            return self._on_first_batch(choice.make(self.start_step, target))

        with (
            Interrupts() as interrupts,
            in_use(self.estimator, saver, interrupts),
            self._progress(target) as line,
        ):
            loop = TrainingLoop(
                trace,
                program,
                feeder,
                runner,
                target_step=target,
                model_dir=config.model_dir,
                save_checkpoint=saver.save if self.leads else teamwork.saves_nothing,
                interrupts=interrupts,
                team=self.team,
                on_block=line.update,
                after_begin=after_begin,
                max_steps_per_call=config.max_steps_per_call,
                on_change=store.mark_changed,
            )
            try:
                loop.run()
            except tf.errors.OpError:
                check.after_failure()
                raise
            finally:
                if runner.graph_changed:
                    self.estimator._live_model.drop(trace)
            saver.wait()
            teamwork.ended(self.team, trace, interrupts)
        self._finish(loop, saver, interrupted=interrupts.received is not None)
        interrupts.leave(loop.global_step(), saved=saver.last_path is not None)

    def _saver(self, trace: Any, session: Any) -> ModelSaver:
        saver, store = v1_saver(trace), self.estimator._live_model.store
        return ModelSaver(
            trace,
            session,
            lambda directory, basename: make_writer(self.estimator, directory, basename, saver),
            self.estimator.model_dir,
            self.position,
            changes=lambda: store.changes,
            restored_step=None if self.latest is None else self.start_step,
            graph_file=lambda: graph_file(trace, self.estimator._config),
        )

    def _finish(self, loop: Any, saver: ModelSaver, *, interrupted: bool) -> None:
        if self.leads:
            EventWriter.get(self.estimator.model_dir).flush()
        if saver.last_path is not None and saver.is_current(saver.last_path):
            self.estimator._live_model.store.mark_loaded(saver.origins(saver.last_path))
            if not interrupted:
                checkpoints.mark_meta(saver.last_path, complete=True)
        if loop.last_loss is None:
            _log.warning(NO_STEPS)
        else:
            loss = loop.last_loss
            _log.info("Loss for final step: %s.", getattr(loss, "numpy", lambda: loss)())

    def _program(self, trace: Trace) -> Any:
        def make() -> Any:
            targets = [trace.spec.train_op, *trace.step_effects]
            servers = self.estimator._live_model.store.servers
            if servers is not None:
                return ServedProgram(trace, targets, trace.spec.loss, servers)
            return StepProgram(trace, targets, trace.spec.loss)

        return self.estimator._live_model.program(trace, "train", make)

    def _on_first_batch(self, choose: OnFirstBatch | None) -> OnFirstBatch | None:
        check = self._data_check
        assert self.feeder is not None
        replicas = self.feeder.replicas
        if check is None or not check.wanted:
            return choose

        def look_and_choose(batch: list[tf.Tensor]) -> None:
            check.look(batch[: len(batch) // replicas])
            if choose is not None:
                choose(batch)

        return look_and_choose

    def _mark_call_begun(self) -> None:
        """A new call that goes on from a finished one starts its input from the beginning.

        Told to the checkpoint it starts from: killed before the next one, it does so again.
        """
        if self.latest is not None and not self.resumes:
            checkpoints.mark_meta(self.latest, complete=False, input={"kind": "start"})

    def _progress(self, target: int | None) -> Progress:
        if self.leads and self.estimator._config.progress is not False:
            to = "" if target is None else f" to {target:,}"
            voice.tell(
                "training from step %s%s in %s",
                f"{self.start_step:,}",
                to,
                self.estimator.model_dir,
                about=voice.PROGRESS,
            )
        return Progress(target, self.start_step, self.estimator._config.progress)
