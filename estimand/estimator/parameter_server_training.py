"""Before the first step of a training in a cluster with parameter servers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.core.modes import ModeKeys
from estimand.engine.checkpoints import api as checkpoints
from estimand.engine.checkpoints import initialization
from estimand.engine.distributed.parameter_servers_input import (
    WorkersInput,
    WorkersTable,
    shares,
)
from estimand.engine.hook_calls.session import TracedSession
from estimand.engine.tracing import effects
from estimand.engine.tracing.trace import Trace
from estimand.estimator.data_checks import DataCheck
from estimand.inputs.contract import ModelInput

_Keys = tf.compat.v1.GraphKeys


def prepare(run: Any, input_fn: Callable[..., Any]) -> None:
    """Make and fill the variables on the servers, and the inputs on the workers.

    The position of the input is not saved: each worker is somewhere else in it, and none of them
    waits. A training that goes on begins its input anew.
    """
    workspace = run.workspace
    live = workspace.live
    servers = live.store.servers
    given = shares(functools.partial(_call, run, input_fn), input_fn, servers.workers)
    run.given = given[0]
    run.trace = trace = live.trace(ModeKeys.TRAIN, run.given.element_spec, run.seed)
    run.session = TracedSession(trace)
    run._data_check = DataCheck(trace, run.given, wanted=workspace.config.check_data)
    run._fill_variables()
    initialization.start_locals(trace, run.session)
    run.feeder = WorkersInput(
        given, servers, input_fn, _tables(trace), _fill_tables_in_graph(trace)
    )
    run.session.next_batch = run.feeder.next_batch
    run.session.on_run = live.store.mark_changed
    live.store.mark_changed()
    run.start_step = int(trace.global_step.numpy())


def _call(
    run: Any, input_fn: Callable[..., Any], context: tf.distribute.InputContext
) -> ModelInput:
    workspace = run.workspace
    workspace.forget_what_is_gone()
    done = 0 if run.latest is None else checkpoints.checkpoint_step(run.latest)
    # Another order than that of the steps before, also where the user has fixed the seed.
    seed = int(run.record.extra.get("input_seed", run.seed)) + done
    workspace.live.seed_input(ModeKeys.TRAIN, seed % 2**31)
    given: ModelInput = workspace.call_input_fn(input_fn, ModeKeys.TRAIN, context)
    return given


def _tables(trace: Trace) -> list[WorkersTable]:
    """What never changes need not be asked of the chief, where the model function has made it."""
    inside = {id(outer): inner for outer, inner in trace.graph.captures}  # type: ignore[attr-defined]
    made = [kept for kept in trace.kept if isinstance(kept, tf.lookup.StaticHashTable)]
    used = [(inside[id(t.resource_handle)], t) for t in made if id(t.resource_handle) in inside]
    return [WorkersTable(in_graph, *table.export()) for in_graph, table in used]


def _fill_tables_in_graph(trace: Trace) -> Callable[[], Any]:
    """Fills tables that are ops of the graph, on the worker where it is called."""
    fill = [op for op in trace.collection(_Keys.TABLE_INITIALIZERS) if op is not None]
    needed = effects.ancestors(fill).values()
    if not any(op.type.startswith("HashTable") for op in needed):
        return lambda: None
    return trace.prune(fill)
