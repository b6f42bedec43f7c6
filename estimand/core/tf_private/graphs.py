"""Changing and asking graphs in ways that public API cannot."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context as _context
from tensorflow.python.framework import op_def_registry
from tensorflow.python.framework.func_graph import FuncGraph

from estimand.core.tf_private.strategies import whole_variable


def variables_read_in(graph: tf.Graph) -> list[tf.Variable]:
    """Variables that a function graph, or an eager scope, reads, in the order of first sight.

    The public `graph.variables` is filled only when tracing is over; a model function that uses
    variables made outside of it needs them before (`est.minimize` without a list).
    """
    if hasattr(graph, "_estimand_first_reads"):
        return [variable for variable, _ in graph._estimand_first_reads.values()]
    by_handle = {id(v.handle): v for v in graph._watched_variables}
    read = [by_handle[id(outer)] for outer, _ in graph.captures if id(outer) in by_handle]
    return list({id(v): v for v in map(whole_variable, read)}.values())


def add_control_inputs(op: tf.Operation, before: Sequence[tf.Operation]) -> None:
    """Make `op` wait for `before`; public API can do so only while an op is being created."""
    op._add_control_inputs(list(before))


def replace_input(op: tf.Operation, index: int, tensor: tf.Tensor) -> None:
    """Feed `tensor` to an op that already exists."""
    op._update_input(index, tensor)


def set_string_attribute(op: tf.Operation, name: str, value: str) -> None:
    """Change an attribute of an op that already exists."""
    op._set_attr(name, tf.compat.v1.AttrValue(s=value.encode()))


def define_functions(definitions: Iterable[Any], graph: tf.Graph) -> None:
    """Make functions known that were made from messages, for as long as `graph` lives.

    What imports a graph's message puts its functions into the graph, but not to where functions
    that are called eagerly look for those that they call. Each definition counts.
    """
    context = _context.context()
    for definition in definitions:
        context.add_function_def(definition)
        name = definition.signature.name
        weakref.finalize(graph, _forget_function, context, name).atexit = False


def _forget_function(context: Any, name: str) -> None:
    if context.has_function(name):
        context.remove_function(name)


def make_graph_tensors_hashable() -> None:
    """Let tensors of a traced model function be dict keys, as tensors of a v1 graph were.

    `feed_dict={tensor: value}` in hooks and dicts keyed by tensors in model functions need it;
    TensorFlow 2 refuses to hash tensors of a function graph. Eager ones stay unhashable.
    """
    original = tf.Tensor.__hash__
    if getattr(original, "_estimand", False):
        return

    def __hash__(self: tf.Tensor) -> int:
        graph = None if hasattr(self, "numpy") else getattr(self, "graph", None)
        return original(self) if graph is None else id(self)

    __hash__._estimand = True  # type: ignore[attr-defined]
    tf.Tensor.__hash__ = __hash__  # type: ignore[method-assign]


def tell_tensors_apart(graph: tf.Graph) -> None:
    """Let `tensor in tensors` and `tensor == operation` work in `graph`, as they did in v1.

    In a v1 graph `==` asked whether two tensors are the same one. It compares values now, which
    an operation or a tensor of another dtype does not allow, and the answer, a tensor, is not
    True or False. Here the answer is still a tensor, but one that also knows the older answer.
    """
    graph._estimand_tells_apart = True
    if getattr(tf.Tensor.__eq__, "_estimand", False):
        return
    to_bool = tf.Tensor.__bool__

    def comparing(original: Any, answer_if_same: bool) -> Any:
        def compare(self: tf.Tensor, other: Any) -> Any:
            graph = None if hasattr(self, "numpy") else getattr(self, "graph", None)
            comparable = isinstance(other, (tf.Tensor, tf.Operation))
            if not comparable or not getattr(graph, "_estimand_tells_apart", False):
                return original(self, other)
            answer = (self is other) == answer_if_same
            if isinstance(other, tf.Operation) or other.dtype != self.dtype:
                return answer
            if any(_is_in_v1_control_flow(place) for place in (graph, self.op, other.op)):
                return answer
            values = original(self, other)
            if isinstance(values, tf.Tensor):
                values._estimand_same = answer
            return values

        compare._estimand = True  # type: ignore[attr-defined]
        return compare

    def __bool__(self: tf.Tensor) -> bool:
        answer = getattr(self, "_estimand_same", None)
        return to_bool(self) if answer is None else answer

    tf.Tensor.__eq__ = comparing(tf.Tensor.__eq__, True)  # type: ignore[method-assign]
    tf.Tensor.__ne__ = comparing(tf.Tensor.__ne__, False)  # type: ignore[method-assign]
    tf.Tensor.__bool__ = __bool__  # type: ignore[method-assign]


def _is_in_v1_control_flow(place: tf.Graph | tf.Operation) -> bool:
    """Whether an op, or the next one that a graph gets, belongs to a loop or branch of v1.

    Such come with graphs that are imported. TensorFlow itself asks which tensors are the same
    while it makes the ops of their gradients, and each comparison would be one more op.
    """
    return place._get_control_flow_context() is not None


def capture(tensor: tf.Tensor) -> tf.Tensor:
    """The stand-in for an outside tensor in the function graph being built; its own stay as is.

    Using the tensor in an op would do the same, but graph import wants the stand-in itself.
    """
    return tf.compat.v1.get_default_graph().capture(tensor)


def function_graph(name: str) -> tf.Graph:
    """An empty graph of a function, which captures what it uses of others."""
    return FuncGraph(name)


def rebind_captures(graph: tf.Graph, replaced: Mapping[int, tf.Tensor]) -> None:
    """Let a function graph take other outside tensors in the place of some, by their identity.

    Public API has this only for a function that is being called, not for a graph that functions
    are cut out of.
    """
    pairs = [(replaced.get(id(outer), outer), inner) for outer, inner in graph.captures]
    graph._function_captures.reset_captures([o for o, _ in pairs], [i for _, i in pairs])


def order_control_flow_bodies(graph: tf.Graph) -> None:
    """Let the bodies of `cond` and `while_loop` built in `graph` run in program order.

    A body decides by this mark of the graph around it whether it gets automatic control
    dependencies. Without them what Keras code assigns inside a body races or is lost.
    """
    graph._add_control_dependencies = True


def collect_only_table_ops_of(graph: tf.Graph) -> None:
    """Let `tf.tables_initializer()` in `graph` give an operation, as it does in a v1 graph.

    A table that is lifted out of a function (a feature column's, say) is filled at once, eagerly.
    TensorFlow collects the operation of that in `graph` all the same, and it is None.
    """
    reference = weakref.ref(graph)  # the graph would keep itself alive

    def add_to_collection(name: str, value: Any) -> None:
        owner = reference()
        is_done = value is None and name == tf.compat.v1.GraphKeys.TABLE_INITIALIZERS
        if owner is not None and not is_done:
            type(owner).add_to_collection(owner, name, value)

    graph.add_to_collection = add_to_collection  # type: ignore[method-assign]


def is_stateful(op_type: str) -> bool:
    """Whether TensorFlow says that an op has a state or an effect; also of ops it does not know."""
    definition = op_def_registry.get(op_type)
    return definition is None or definition.is_stateful


def op_definition(name: str) -> Any:
    """What TensorFlow knows of a type of operation (an OpDef); None if it has none of that name."""
    return op_def_registry.get(name)
