"""Before the first step of a training in a cluster with parameter servers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from estimand.core.modes import ModeKeys
from estimand.engine.checkpoints import api as checkpoints
from estimand.engine.distributed.parameter_servers import Servers
from estimand.engine.distributed.parameter_servers_input import (
    WorkersInput,
    WorkersTable,
    shares,
)
from estimand.engine.distributed.parameter_servers_program import ServedProgram
from estimand.engine.hook_calls.session import TracedSession
from estimand.engine.saving import initialization
from estimand.engine.tracing.trace import Trace
from estimand.engine.variables import effects
from estimand.estimator.training.data_checks import DataCheck
from estimand.estimator.training.in_process import (
    TracedRun,
    connect,
    fill_variables,
    initializers_run,
)
from estimand.estimator.training.starting_point import StartingPoint, TrainingInput
from estimand.inputs.contract import ModelInput

_Keys = tf.compat.v1.GraphKeys


@dataclass(frozen=True, kw_only=True)
class RunOnServers(TracedRun):
    """Workers run the steps, whenever they like."""

    program: ServedProgram
    feeder: WorkersInput


def prepare(start: StartingPoint, input_fn: TrainingInput) -> RunOnServers:
    """Make and fill the variables on the servers, and the inputs on the workers.

    The position of the input is not saved: each worker is somewhere else in it, and none of them
    waits. A training that goes on begins its input anew.
    """
    live, config = start.workspace.live, start.workspace.config
    servers = live.store.maker
    assert isinstance(servers, Servers)
    given = shares(functools.partial(_call, start, input_fn), input_fn.function, servers.workers)
    input_fn.given = given[0]
    trace = live.trace(ModeKeys.TRAIN, given[0].element_spec, start.seed)
    session = TracedSession(trace)
    check = DataCheck(trace, given[0], wanted=config.check_data)
    latest, _ = fill_variables(start, trace, session)
    initializers = initializers_run(start, trace)
    initialization.start_locals(trace, session)  # also fills the tables that workers get
    tables, fill_tables = _tables(trace), _fill_tables_in_graph(trace)
    feeder = WorkersInput(given, servers, input_fn.function, tables, fill_tables)
    connect(start, session, feeder.next_batch)

    def program() -> ServedProgram:
        targets = [trace.spec.train_op, *trace.step_effects]
        return ServedProgram(trace, targets, trace.spec.loss, servers)

    return RunOnServers(
        start=start,
        latest=latest,
        program=live.program(trace, "train", program),
        session=session,
        feeder=feeder,
        position=None,
        start_step=int(trace.global_step.numpy()),
        max_steps_per_call=config.max_steps_per_call,
        check=check,
        variables=frozenset(trace.variables.by_name),
        initializers=initializers,
    )


def _call(
    start: StartingPoint, input_fn: TrainingInput, context: tf.distribute.InputContext
) -> ModelInput:
    workspace = start.workspace
    workspace.forget_what_is_gone()
    done = 0 if start.latest is None else checkpoints.checkpoint_step(start.latest)
    # Another order than that of the steps before, also where the user has fixed the seed.
    workspace.live.seed_input(ModeKeys.TRAIN, (start.input_seed + done) % 2**31)
    return workspace.call_input_fn(input_fn.function, ModeKeys.TRAIN, context)


def _tables(trace: Trace) -> list[WorkersTable]:
    """What never changes need not be asked of the chief, where the model function has made it."""
    inside = {id(outer): inner for outer, inner in trace.graph.captures}  # type: ignore[attr-defined]
    made = [kept for kept in trace.kept if isinstance(kept, tf.lookup.StaticHashTable)]
    used = [(inside[id(t.resource_handle)], t) for t in made if id(t.resource_handle) in inside]
    return [WorkersTable(in_graph, *table.export()) for in_graph, table in used]


def _fill_tables_in_graph(trace: Trace) -> Callable[[], Any]:
    """Fills tables that are ops of the graph, on the worker where it is called."""
    fill = trace.collection(_Keys.TABLE_INITIALIZERS)
    needed = effects.ancestors(fill).values()
    if not any(op.type.startswith("HashTable") for op in needed):
        return lambda: None
    return trace.prune(fill)
