"""Eager mode, executors, and eager scopes with collections of their own."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

# Executors, eager mode under `disable_eager_execution()`.
from tensorflow.python.eager import context as _context

from estimand.core.interpreter.swapping import swapped

_SINGLE_THREADED = "SINGLE_THREADED_EXECUTOR"
_CONDITIONS = frozenset({"Case", "If", "StatelessCase", "StatelessIf"})


@contextlib.contextmanager
def eager_mode() -> Iterator[None]:
    """Eager execution, also where the program called `tf.compat.v1.disable_eager_execution()`."""
    if tf.executing_eagerly():
        yield
    else:
        # Public API can only switch eager execution on once, at program start.
        with _context.eager_mode():
            yield


@contextlib.contextmanager
def single_threaded_tracing() -> Iterator[None]:
    """Trace so that either executor may run the graph.

    The single-threaded executor refuses `cond` and `while` that were marked, at trace time, to
    be lowered to v1 control flow; the ordinary one runs both forms. Only a `cond` with another
    one inside is marked, and loses the mark where the single-threaded executor will run it: also
    the ordinary one hands small branches to that, in a thread of TensorFlow's pool, which waits
    there for the branches inside; and where there are fewer threads than levels, all wait for
    ever. Functions that are called leave the executor to their caller.
    """
    from tensorflow.python.eager.polymorphic_function import atomic_function
    from tensorflow.python.ops import control_flow_util_v2

    known: dict[str, bool] = {}

    def lowered_if_nested(original: Callable[..., None]) -> Callable[..., None]:
        def maybe_set_lowering_attr(op: tf.Operation, lower: bool | None = None) -> None:
            nested = op.type in _CONDITIONS and _calls_conditions(op, known)
            original(op, True if nested else lower)

        return maybe_set_lowering_attr

    def by_whoever_calls(call: Callable[..., Any]) -> Callable[..., Any]:
        def make_call(*args: Any, **kwargs: Any) -> Any:
            return call(*args, **{**kwargs, "executor_type": ""})

        return make_call

    with (
        _context.function_executor_type(_SINGLE_THREADED),
        swapped(
            [
                (control_flow_util_v2, "maybe_set_lowering_attr", lowered_if_nested),
                (atomic_function, "partitioned_call_op", by_whoever_calls),
            ]
        ),
    ):
        yield


def _calls_conditions(op: tf.Operation, known: dict[str, bool]) -> bool:
    """Whether there is a `cond` in any function that an op calls, and that those call."""
    values = op.node_def.attr.values()
    names = [f.name for value in values for f in (value.func, *value.list.func) if f.name]
    for name in names:
        function = op.graph._functions.get(name)
        if name not in known and hasattr(function, "graph"):
            known[name] = False  # while it is being looked through
            known[name] = any(
                inner.type in _CONDITIONS or _calls_conditions(inner, known)
                for inner in function.graph.get_operations()
            )
    return any(known.get(name, False) for name in names)


@contextlib.contextmanager
def executor(single_threaded: bool) -> Iterator[None]:
    """Run function calls with the single-threaded executor, or the ordinary one."""
    if single_threaded:
        with _context.function_executor_type(_SINGLE_THREADED):
            yield
    else:
        yield


@contextlib.contextmanager
def calls_as_they_are() -> Iterator[None]:
    """Functions that are called in the graphs built inside are run as they were built.

    Each call says whether TensorFlow's graph optimizer is to change the function, and what it does
    depends on what is known of the surroundings: in the body of a loop not the same as elsewhere.
    """
    options = _context.context().function_call_options
    config = tf.compat.v1.ConfigProto.FromString(options.config_proto_serialized)
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with _context.function_executor_type(options.executor_type):  # puts all options back
        _context.context().function_call_options.config_proto_serialized = config
        yield


@contextlib.contextmanager
def fresh_eager_scope() -> Iterator[tf.Graph]:
    """Eager execution with collections and variable scopes of its own.

    v1 code keeps its scope counters (dense, dense_1) and collections on the default graph, in
    eager mode too; and `get_variable(reuse=True)` needs a store of eager variables, which
    TensorFlow 2 has but does not export.
    """
    from tensorflow.python.ops.variable_scope import EagerVariableStore

    with (
        tf.Graph().as_default() as graph,
        _context.eager_mode(),
        EagerVariableStore().as_default(),
    ):
        _note_reads(graph)
        _name_collected(graph)
        yield graph


def first_read_values(graph: tf.Graph) -> dict[int, tf.Tensor]:
    """What each variable held when code in a `fresh_eager_scope` first read it, by its id."""
    return {key: value for key, (_, value) in graph._estimand_first_reads.items()}


def _note_reads(graph: tf.Graph) -> None:
    """A gradient tape tells the trainable variables only; this is how TensorFlow tells all."""
    reads = graph._estimand_first_reads = {}

    def watch_variable(variable: tf.Variable) -> None:
        if id(variable) not in reads:
            reads[id(variable)] = (variable, None)  # reading it comes here again
            reads[id(variable)] = (variable, variable.read_value())

    graph.watch_variable = watch_variable


def _name_collected(graph: tf.Graph) -> None:
    """Let `get_collection(key, scope)` find eager tensors by the scope they were collected in.

    They have no names; in a graph theirs would begin with it, those of regularizers with the name
    of the variable.
    """
    scopes: dict[int, tuple[Any, str, str]] = {}
    add, get = graph.add_to_collection, graph.get_collection

    def add_to_collection(name: Any, value: Any) -> None:
        if hasattr(value, "dtype") and not hasattr(value, "name"):
            of_variables = tf.compat.v1.get_variable_scope().name
            scopes[id(value)] = (value, tf.get_current_name_scope(), of_variables)
        add(name, value)

    def get_collection(name: Any, scope: str | None = None) -> list[Any]:
        if scope is None:
            return get(name)
        members = {id(value) for value in get(name, scope)}
        matches = re.compile(scope).match
        members |= {key for key, (_, *names) in scopes.items() if any(map(matches, names))}
        return [value for value in get(name) if id(value) in members]

    graph.add_to_collection = add_to_collection  # type: ignore[method-assign]
    graph.get_collection = get_collection  # type: ignore[method-assign]


@contextlib.contextmanager
def noting_stateful_operations() -> Iterator[set[str]]:
    """The types of the stateful operations, such as random ones, that this block runs.

    Public API shows the operations of a graph, not those that run eagerly.
    """
    from tensorflow.python.framework import op_callbacks, op_def_registry

    names: set[str] = set()

    def note(op_type: Any, *_: Any, **__: Any) -> None:
        name = op_type.decode() if isinstance(op_type, bytes) else op_type
        definition = op_def_registry.get(name)
        if definition is None or definition.is_stateful:
            names.add(name)

    op_callbacks.add_op_callback(note)
    try:
        yield names
    finally:
        op_callbacks.remove_op_callback(note)
