"""From a traced model to a flat graph of its own, as v1 SavedModels hold it.

A trace reads live variables and tables through captures. Here every capture is replaced by
something the graph itself holds: a variable, a table with its contents, a constant. All ops keep
the names that the model function and the receiver gave them (`input_image:0`), and whatever can
predict can be exported, Keras objects made outside of the model function included.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf
from tensorflow.compat.v1 import NodeDef

from estimand.core import recurrent_cells, tf_private
from estimand.core.modes import ModeKeys
from estimand.engine.rewriting import subgraph
from estimand.engine.rewriting.op_kinds import is_random_twin
from estimand.engine.saving import model_saver as saving
from estimand.engine.saving.model_saver import SavedVariable
from estimand.engine.tracing import randomness
from estimand.engine.tracing.trace import Trace
from estimand.engine.variables import effects
from estimand.engine.variables.placement import copies
from estimand.export import captures
from estimand.export.captures import Tables

_Keys = tf.compat.v1.GraphKeys
# What making a variable adds to a graph under its name.
_VARIABLE_PARTS = ("", "/Assign", "/Initializer", "/IsInitialized", "/Read")
_COUNT_OF_DRAWS = "estimand/draws"
# Filled here, or ours alone.
_OWN_COLLECTIONS = {
    _Keys.GLOBAL_VARIABLES,
    _Keys.LOCAL_VARIABLES,
    _Keys.TRAINABLE_VARIABLES,
    _Keys.METRIC_VARIABLES,
    _Keys.GLOBAL_STEP,
    _Keys.TABLE_INITIALIZERS,
    _Keys.ASSET_FILEPATHS,
    _Keys.SAVERS,
    _Keys.SAVEABLE_OBJECTS,
}


@dataclass
class FlatGraph:
    """A graph without captures, and what writing it as a SavedModel needs."""

    graph: tf.Graph
    # By the name that the export has for them: where in the checkpoint, the variable here.
    saved: dict[str, tuple[SavedVariable, tf.Variable]] = field(default_factory=dict)
    assets: list[tf.Tensor] = field(default_factory=list)
    init_op: tf.Operation | None = None
    train_op: Any = None
    variables: dict[int, tf.Variable] = field(default_factory=dict)  # by the id of the trace's


def flatten(
    trace: Trace, inputs: Callable[[Trace], Mapping[str, tf.Tensor]] = lambda trace: {}
) -> FlatGraph:
    """A copy of the trace's graph that stands on its own.

    `inputs` makes, in the new graph, what takes the place of inputs of the trace, by their names;
    without it they stay placeholders.
    """
    graph_def = trace.graph.as_graph_def()
    if trace.draws is not None:
        _draw_as_a_session_does(graph_def, trace.draws)
    taken = {node.name for node in graph_def.node}
    flat = FlatGraph(tf.Graph())
    with flat.graph.as_default():
        handles = _make_variables(trace, flat, taken)
        tables = Tables(trace)
        replaced = dict(inputs(trace))
        # Apart: an op of the model whose name is taken would get another, and be lost.
        scope = _free_scope(taken)
        for outer, inner in trace.graph.captures:  # type: ignore[attr-defined]
            # Small values are already in the graph.
            if inner.op.type != "Const" and inner.op.name in taken:
                handle = handles.get(id(outer))
                if handle is None:
                    with tf.name_scope(scope):
                        handle = captures.replacement(outer, inner, tables)
                replaced[inner.op.name] = handle
        _import(graph_def, replaced)
        _finish(trace, flat, tables)
    return flat


def _make_variables(trace: Trace, flat: FlatGraph, taken: set[str]) -> dict[int, tf.Tensor]:
    """A variable here for each one there; returns their handles by the id of the old one's."""
    by_id = {id(saved.variable): saved for saved in saving.saved_variables(trace)}
    handles: dict[int, tf.Tensor] = {}
    for name, variable in trace.variables.by_name.items():
        saved = by_id.get(id(variable))
        first, *others = copies(variable)
        here = _make_variable(trace, first, _free_name(name, taken), local=saved is None)
        handles[id(first.handle)] = here.handle
        flat.variables[id(variable)] = here
        for number, replica in enumerate(others, 1):
            handles[id(replica.handle)] = _mirror(
                here, _free_name(f"{name}/replica_{number}", taken)
            )
        if saved is not None:
            whole = not saved.slice_spec  # parts of a partitioned variable keep their own names
            flat.saved[saved.name if whole else saved.store_name] = (saved, here)
        if variable is trace.global_step:
            flat.graph.add_to_collection(_Keys.GLOBAL_STEP, here)
    if trace.draws is not None and trace.draws.in_use:
        captured = {id(outer): inner.op.name for outer, inner in trace.graph.captures}  # type: ignore[attr-defined]
        for count in trace.draws.variables:
            if captured.get(id(count.handle)) in taken:  # by the body of a function
                here = _make_variable(trace, count, _COUNT_OF_DRAWS, local=True)
                handles[id(count.handle)] = here.handle
    return handles


def _make_variable(trace: Trace, variable: tf.Variable, name: str, *, local: bool) -> Any:
    collections = [_Keys.LOCAL_VARIABLES if local else _Keys.GLOBAL_VARIABLES]
    if local and variable in trace.graph.get_collection(_Keys.METRIC_VARIABLES):
        collections.append(_Keys.METRIC_VARIABLES)
    known = variable.shape.is_fully_defined()
    return tf.compat.v1.Variable(
        _initial_value(variable, local),
        trainable=variable.trainable and not local,
        collections=collections,
        name=name,
        dtype=variable.dtype,
        use_resource=True,
        validate_shape=known,
        shape=None if known else variable.shape,
    )


def _mirror(variable: tf.Variable, name: str) -> tf.Tensor:
    """The handle of a replica's copy, under a strategy's name for it: it starts as the first."""
    return tf.compat.v1.Variable(
        variable.read_value(),  # as a function it would be placed beside the copy
        trainable=False,
        collections=[_Keys.LOCAL_VARIABLES],
        name=name,
        dtype=variable.dtype,
        use_resource=True,
    ).handle


def _initial_value(variable: tf.Variable, local: bool) -> Any:
    """Zeros where a checkpoint gives the value; what starts anew with each load, as it starts."""
    if local:
        initial = getattr(variable, "_estimand_initial_value", None)
        with tf_private.eager_mode():
            value = initial() if callable(initial) else initial
            if value is None:
                value = variable.read_value()
        if hasattr(value, "numpy"):
            value = value.numpy()
        if not tf.is_tensor(value):
            return value
    shape = [size or 0 for size in variable.shape.as_list()] if variable.shape.rank else []
    if variable.shape.is_fully_defined():
        return lambda: tf.zeros(shape, variable.dtype)
    # A variable that grows has to take a value of any size.
    return lambda: tf.compat.v1.placeholder_with_default(
        tf.zeros(shape, variable.dtype), variable.shape
    )


def _free_name(name: str, taken: set[str]) -> str:
    """A name that no op of the model has; the name in the checkpoint does not depend on it."""
    chosen, count = name, 0
    while any(chosen + part in taken for part in _VARIABLE_PARTS):
        count += 1
        chosen = f"{name}_variable_{count}"
    return chosen


def _free_scope(taken: set[str]) -> str:
    """A name scope that the model does not have, as a whole: no number is added to it."""
    scope = "estimand_captured"
    while any(name == scope or name.startswith(f"{scope}/") for name in taken):
        scope += "_"
    return f"{scope}/"


def _import(graph_def: tf.compat.v1.GraphDef, replaced: dict[str, tf.Tensor]) -> None:
    kept = tf.compat.v1.GraphDef(library=graph_def.library, versions=graph_def.versions)
    prefix = captures.fresh_resource_name()
    used: set[str] = set()
    for node in graph_def.node:
        if node.name in replaced:
            continue
        copy = kept.node.add()
        copy.CopyFrom(node)
        used.update(_source(name) for name in copy.input)
        if "shared_name" in copy.attr and copy.attr["shared_name"].s:
            # Two exports in one process would otherwise meet in one table.
            copy.attr["shared_name"].s = f"{prefix}/{copy.name}".encode()
        subgraph.drop_colocation(copy, replaced)
        _drop_own_gradient(copy)
        for how in ("executor_type", "config_proto"):  # a function is run, here: see `tracing`
            if how in copy.attr:
                copy.attr[how].s = b""
    _drop_control_inputs(kept, replaced)
    input_map = {f"{n}:0": tensor for n, tensor in replaced.items() if n in used}
    tf.graph_util.import_graph_def(kept, input_map=input_map, name="")


def _draw_as_a_session_does(graph_def: tf.compat.v1.GraphDef, draws: randomness.Draws) -> None:
    """Random ops as the model function made them: nobody counts the steps of this graph."""
    for node in graph_def.node:
        for number, given in enumerate(node.input):
            if (original := draws.replaced.get(_source(given))) is not None:
                node.input[number] = f"^{original}" if given.startswith("^") else original
    while True:
        used = {_source(name) for node in graph_def.node for name in node.input}
        kept = [n for n in graph_def.node if n.name in used or not is_random_twin(n.name)]
        if len(kept) == len(graph_def.node):
            return
        del graph_def.node[:]
        graph_def.node.extend(kept)


def _source(input_name: str) -> str:
    return input_name.lstrip("^").split(":")[0]


def _drop_own_gradient(node: NodeDef) -> None:
    """Other processes do not know it, and find TensorFlow's ops before this one."""
    kind = "_gradient_op_type"
    if kind in node.attr and node.attr[kind].s.decode() in recurrent_cells.GRADIENTS:
        del node.attr[kind]


def _drop_control_inputs(graph_def: tf.compat.v1.GraphDef, replaced: dict[str, tf.Tensor]) -> None:
    for node in graph_def.node:
        kept = [i for i in node.input if not (i.startswith("^") and i[1:] in replaced)]
        if len(kept) < len(node.input):
            del node.input[:]
            node.input.extend(kept)


def _finish(trace: Trace, flat: FlatGraph, tables: Tables) -> None:
    graph = flat.graph
    initializers = [
        graph.as_graph_element(op.name) for op in trace.collection(_Keys.TABLE_INITIALIZERS)
    ]
    initializers += tables.initializers
    for op in initializers:
        graph.add_to_collection(_Keys.TABLE_INITIALIZERS, op)
    flat.assets = _vocabulary_files(graph, trace.collection(_Keys.ASSET_FILEPATHS))
    ours = tf.group(tf.compat.v1.local_variables_initializer(), *initializers)
    own = _own_init_op(trace)
    later = [] if own is None else [graph.as_graph_element(own.name)]
    before = effects.ancestors([ours])
    for name, op in effects.ancestors(getattr(o, "op", o) for o in later).items():
        if name not in before and effects.changes_state(op):  # what the user sets, is set last
            tf_private.add_control_inputs(op, [ours])
    flat.init_op = tf.group(ours, *later, name="estimand_init")
    if trace.mode == ModeKeys.TRAIN:
        names = [trace.spec.train_op.name, *(op.name for op in trace.step_effects)]
        flat.train_op = tf.group(*map(graph.as_graph_element, names), name="estimand_train_op")
    for key in trace.graph.get_all_collection_keys():
        if key not in _OWN_COLLECTIONS and isinstance(key, str):
            _copy_collection(flat, key, trace.graph.get_collection(key))


def _own_init_op(trace: Trace) -> Any:
    scaffold = trace.spec.scaffold
    op = None if scaffold is None else scaffold.local_init_op
    return op if isinstance(op, tf.Operation | tf.Tensor) else None


def _vocabulary_files(graph: tf.Graph, listed: Iterable[Any]) -> list[tf.Tensor]:
    """The file names that tables are filled from, or that the user lists: they are assets."""
    placeholders: dict[str, tf.Tensor] = {}
    for op in graph.get_operations():
        if op.type == "InitializeTableFromTextFileV2" and op.inputs[1].op.type == "Const":
            placeholders[op.inputs[1].name] = op.inputs[1]
    for item in listed:
        if isinstance(item, tf.Tensor) and item.op.type == "Const":
            with contextlib.suppress(KeyError):  # a capture: it has been replaced
                placeholders[item.name] = graph.as_graph_element(item.name)
    return list(placeholders.values())


def _copy_collection(flat: FlatGraph, key: str, items: Iterable[Any]) -> None:
    for item in items:
        if id(item) in flat.variables:
            flat.graph.add_to_collection(key, flat.variables[id(item)])
        elif isinstance(getattr(item, "name", None), str):  # losses may be computed when asked for
            # A capture has been replaced, and others are no part of the graph.
            with contextlib.suppress(KeyError, ValueError):
                flat.graph.add_to_collection(key, flat.graph.as_graph_element(item.name))
