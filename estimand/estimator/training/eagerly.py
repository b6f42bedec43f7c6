"""A run with `RunConfig(run_eagerly=True)`: the model function runs in Python at every step."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.core.first_values import first_value
from estimand.core.modes import ModeKeys
from estimand.engine.checkpoints import api as checkpoints
from estimand.engine.checkpoints.api import Entry
from estimand.engine.distribution import Stop
from estimand.engine.eager.program import EagerProgram, FirstStep
from estimand.engine.eager.run import EagerRunner, EagerTrace
from estimand.engine.eager.session import EagerSession
from estimand.engine.feeding.batches import pack_batch
from estimand.engine.feeding.feeder import Feeder, InputPosition
from estimand.engine.saving.model_saver import DRAWS
from estimand.estimator import eager_models
from estimand.estimator.training.in_process import feeder_at, put_back_locals
from estimand.estimator.training.prepared import Prepared
from estimand.estimator.training.starting_point import StartingPoint, TrainingInput
from estimand.inputs.contract import ModelInput


class NoBatchError(Exception):
    """The input is empty, so the model function was never called."""


class _Position(InputPosition):
    """Stands at the beginning until the first step, though a batch has been taken for it."""

    def __init__(self, program: EagerProgram, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._program = program

    def take(self) -> tuple[list[Entry], dict[str, Any]]:
        return ([], {"kind": "start"}) if self._program.first_step else super().take()


def prepare(start: StartingPoint, input_fn: TrainingInput) -> Prepared:
    """Make the variables, which takes a batch, and bring the input to its place."""
    workspace = start.workspace
    given = input_fn.call()
    tf.random.set_seed(start.seed)
    runner = workspace.eager_runner(ModeKeys.TRAIN, start.seed)
    make = _from_scratch if start.latest is None and workspace.warm_start is None else _filled
    try:
        start, trace, feeder, given, first_step = make(start, input_fn, given, runner)
    except tf.errors.OutOfRangeError:
        raise NoBatchError from None
    workspace.live.store.mark_changed()
    start_step = trace.step_now()
    runner.draws.start(int(start.meta.get(DRAWS, start_step)))
    session = EagerSession(trace)
    program = EagerProgram(runner, session, given.element_spec, first_step)
    position = None
    if workspace.config.save_input_position:
        position = _Position(program, feeder, given.dataset, resumable=given.resumable)
    return Prepared(
        start=start,
        latest=start.latest,
        program=program,
        session=session,
        feeder=feeder,
        position=position,
        start_step=start_step,
        max_steps_per_call=1,  # whoever debugs wants to see each
    )


_Made = tuple[StartingPoint, EagerTrace, Feeder, ModelInput, FirstStep | None]


def _from_scratch(
    start: StartingPoint, input_fn: TrainingInput, given: ModelInput, runner: EagerRunner
) -> _Made:
    """There are no variables before the first step. It is run once, taken back so that hooks see
    the start, and put in place when its turn comes."""
    feeder = feeder_at(start, given, input_fn.call, None, start.meta, Stop())
    before = start.workspace.live.store.values()
    batch = feeder.next_batch()
    feeder.took(-1)  # it counts when the step does
    features, labels = pack_batch(given.element_spec, batch)
    trace = runner.run(features, labels)
    put_in_place = _taken_back(trace, before)
    scaffold = trace.spec.scaffold
    if scaffold is not None and scaffold.init_fn is not None:
        scaffold.init_fn(EagerSession(trace))  # a Scaffold binds itself as the first argument
        put_in_place = lambda: runner.run(features, labels)  # noqa: E731  variables have changed
    return start, trace, feeder, given, FirstStep(batch, put_in_place)


def _taken_back(trace: EagerTrace, before: dict[int, tf.Tensor]) -> Callable[[], EagerTrace]:
    """Undo the step of `trace`; `before` has what variables held that existed already."""
    after = []
    names = {**trace.variables.local, **trace.variables.by_name}
    for name, variable in {id(v): (n, v) for n, v in names.items()}.values():
        value = before.get(id(variable), trace.outside_values.get(name))
        if value is None:
            value = first_value(variable)
        if value is not None:
            after.append((variable, variable.read_value()))
            variable.assign(value)

    def put_in_place() -> EagerTrace:
        for variable, value in after:
            variable.assign(value)
        return trace

    return put_in_place


def _filled(
    start: StartingPoint, input_fn: TrainingInput, given: ModelInput, runner: EagerRunner
) -> _Made:
    """Variables with the values of a checkpoint or a warm start, made on a batch of no account."""
    first = Feeder(given.dataset, given.unpack, keep_alive=given).next_batch()
    trace, used = eager_models.build(start.workspace, runner, given.element_spec, first)
    if used != start.latest:  # the newest was damaged: what was noted with it is no use, either
        meta = (checkpoints.read_meta(used) if used else None) or {}
        start = dataclasses.replace(start, latest=used, meta=meta)
    # A Dataset that was read from, if only one batch, shuffles anew the next time.
    given = input_fn.call()
    feeder = feeder_at(start, given, input_fn.call, start.latest, start.meta, trace.stop)
    runner.go_on_with(put_back_locals(start, trace, start.latest, start.meta))
    return start, trace, feeder, given, None
