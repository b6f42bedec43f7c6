"""Filling the variables of a trace: from a checkpoint, a warm start, or their initializers."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Mapping
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import NoCheckpointError
from estimand.engine.checkpoints import api as checkpoints
from estimand.engine.checkpoints.substitutes import substitutes
from estimand.engine.hook_calls.runner import HookSession
from estimand.engine.hook_calls.session import TracedSession
from estimand.engine.saving import model_saver as saving
from estimand.engine.saving import on_servers
from estimand.engine.tracing.built_model import BuiltModel
from estimand.engine.tracing.trace import Trace
from estimand.engine.variables.store import VariableStore
from estimand.engine.warm_start import apply as warm_start

_log = logging.getLogger("tensorflow")
_Keys = tf.compat.v1.GraphKeys


def is_restored(trace: BuiltModel, store: VariableStore, path: str) -> bool:
    """Whether all variables have the values of a checkpoint already."""
    checkpoint = saving.identity(path)
    wanted = saving.saved_variables(trace)
    return not store.not_from({v.store_name: v.origin(checkpoint) for v in wanted})


def restore(
    trace: BuiltModel,
    store: VariableStore,
    session: HookSession,
    path: str,
    *,
    fall_back: str | None,
    on_read: Callable[[str], None] = lambda path: None,
) -> str:
    """Load a checkpoint, reading only what is not in place yet; returns the one that was used.

    With `fall_back`, one that is damaged or gone is passed over for the newest intact one of
    that directory. `on_read` hears of a checkpoint that was read.
    """
    wanted = saving.saved_variables(trace)
    checkpoint = saving.identity(path)
    stale = store.not_from({v.store_name: v.origin(checkpoint) for v in wanted})
    missing = [v for v in wanted if v.store_name in stale]
    if missing:
        _log.info("Restoring parameters from %s", path)
        if fall_back is not None:
            checkpoints.warn_of_unusable(fall_back, path)
        find = substitutes(trace.collection)
        device_of = on_servers.reading_devices(os.path.dirname(path), [v.variable for v in wanted])
        reads = [v.wanted(device_of(v.variable)) for v in missing]

        def fill(number: int, value: tf.Tensor) -> None:
            missing[number].variable.assign(value)

        try:
            checkpoints.give_tensors(path, reads, fill, find)
        except (checkpoints.CheckpointDamaged, NoCheckpointError):
            if fall_back is None:
                raise  # else a training may have removed it since it was found
            missing = wanted
            reads = [v.wanted(device_of(v.variable)) for v in wanted]
            path = checkpoints.give_newest_intact(fall_back, reads, fill, find)
        checkpoint = saving.identity(path)
        store.mark_loaded({v.store_name: v.origin(checkpoint) for v in missing})
        saving.restore_saveables(trace, session, path)
        saver = saving.v1_saver(trace)
        if isinstance(trace, Trace) and tf_private.saver_overrides(saver, "restore"):
            with trace.as_default():
                saver.restore(session, path)
        on_read(path)
    return path


def expect_the_rest(trace: BuiltModel, store: VariableStore, path: str) -> None:
    """Hold what a checkpoint has beyond the variables of `trace`, which was run eagerly.

    They may be made by a later step. A checkpoint whose names had to be translated, or of which a
    Saver wants a part only, has no such rest.
    """
    reader = tf.train.load_checkpoint(path)
    there = reader.get_variable_to_dtype_map()
    known = {v.name for v in saving.saved_variables(trace)}
    if not known <= there.keys() or tf_private.saver_variables(saving.v1_saver(trace)) is not None:
        return
    known |= {spec.name for saveable in saving.saveable_objects(trace) for spec in saveable.specs}
    for name in sorted(there.keys() - known):
        if there[name] != tf.string:
            value = tf.constant(reader.get_tensor(name))
            trace.variables.by_name[name] = store.expect(name, value)


def restore_added(trace: BuiltModel, before: Collection[str], path: str) -> None:
    """Variables that hooks have added since `before` continue where a checkpoint has them."""
    reader = tf.train.load_checkpoint(path)
    for saved in saving.saved_variables(trace):
        if saved.store_name not in before and reader.has_tensor(saved.name):
            saved.variable.assign(checkpoints.read_tensors(path, [saved.wanted()])[0])


def initialize(
    trace: Trace, session: TracedSession, warm_start_settings: warm_start.WarmStartSettings | None
) -> None:
    """First values where there is no checkpoint: initializers, warm start, then init_fn."""
    for variable, tensor in trace.variables.deferred:
        if tf_private.initializer_set_from_checkpoint(variable) is None:
            variable.assign(session.run(tensor))
    run_initializers(trace, session)
    if warm_start_settings is not None:
        saved = trace.variables.saved()
        trainable = {n for n, v in saved.items() if v.trainable}
        warm_start.warm_start(warm_start_settings, saved, trainable)
    scaffold = trace.spec.scaffold
    if scaffold is not None:
        if scaffold.init_op is not None:
            session.run(scaffold.init_op, feed_dict=scaffold.init_feed_dict)
        if scaffold.init_fn is not None:
            _call_init_fn(scaffold.init_fn, session)
    trace.initialized = True


def initializers_set(trace: BuiltModel) -> dict[str, tf.Operation]:
    """The initializers that `init_from_checkpoint` has put in place so far, by variable."""
    return {
        name: op
        for name, variable in trace.variables.by_name.items()
        if (op := tf_private.initializer_set_from_checkpoint(variable)) is not None
    }


def run_initializers(
    trace: BuiltModel, session: HookSession, done: Mapping[str, tf.Operation] | None = None
) -> None:
    """Fill variables by `initializers_set`, but for those `done`."""
    done = done or {}
    wanted = [op for name, op in initializers_set(trace).items() if op is not done.get(name)]
    if wanted:
        session.run(wanted)


def _call_init_fn(init_fn: Callable[..., Any], session: TracedSession) -> None:
    # A Scaffold has already bound itself as the first argument.
    with session.trace.as_default():
        init_fn(session)


def start_locals(trace: Trace, session: TracedSession) -> None:
    """Local variables (metrics) start anew in every run; tables are filled once per trace."""
    for variable in trace.variables.local.values():
        initial = variable._estimand_initial_value
        if tf.is_tensor(initial) and not hasattr(initial, "numpy"):
            value = session.run(initial)
        else:
            value = initial() if callable(initial) else initial
        variable.assign(value, read_value=False)
    tables = trace.collection(_Keys.TABLE_INITIALIZERS)
    if tables and not trace.tables_ready:
        session.run(tables)
    trace.tables_ready = True
    scaffold = trace.spec.scaffold
    if scaffold is not None and scaffold.local_init_op is not None:
        session.run(scaffold.local_init_op, feed_dict=scaffold.local_init_feed_dict)
