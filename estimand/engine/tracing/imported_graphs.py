"""Graphs with variables of their own that a model function imports.

`hub.Module`, `tf.train.import_meta_graph`, the loader of SavedModels and `tf.import_graph_def`
bring nodes of variables into the graph, which a function cannot hold. Each becomes a variable of
the store, under the name it would have had, and what the graph does with it is done there. So it
is trained, saved and restored as others are, found by other modes, and filled by whatever the
program fills it with: its initializer, `init_from_checkpoint`, a Saver in a Scaffold.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import ModelFnError
from estimand.core.tf_private import graph_imports
from estimand.engine.rewriting import ref_variables
from estimand.engine.variables.store import VariableStore
from estimand.engine.variables.traced_variables import TracedVariables

_Keys = tf.compat.v1.GraphKeys
_Tensors = Mapping[str, Any]


@dataclass
class _Imported:
    """A variable that came with a graph."""

    variable: tf.Variable
    is_reference: bool  # of TensorFlow 1
    is_new: bool  # no other trace has made it


@dataclass
class ImportedGraphs:
    """What is imported during one trace.

    Args:
      replicas: how many of the model the trace has.
    """

    store: VariableStore
    traced: TracedVariables
    replicas: int
    # By their names: variables; and by the names of tensors that stand for them in the graph.
    _variables: dict[str, _Imported] = field(default_factory=dict)
    _definitions: dict[str, set[str]] = field(default_factory=dict)

    def importing(self) -> contextlib.AbstractContextManager[None]:
        return graph_imports.importing_graphs(self)

    @contextlib.contextmanager
    def with_collections(self, meta_graph: Any, wanted: Callable[[str], bool]) -> Iterator[None]:
        before, self._definitions = self._definitions, {}
        for collection, definition in graph_imports.variable_definitions(meta_graph, wanted):
            name = _plain(definition.variable_name)
            self._definitions.setdefault(name, set()).add(collection)
        try:
            yield
        finally:
            self._definitions = before

    def import_graph(
        self,
        import_it: Callable[[Any, Any], Any],
        graph_def: Any,
        input_map: _Tensors | None,
        scope: str,
    ) -> Any:
        graph = tf.compat.v1.get_default_graph()
        around = graph_imports.graphs_around(graph)
        if not isinstance(graph_def, tf.compat.v1.GraphDef) or self.traced.graph not in around:
            return import_it(graph_def, input_map)
        given = {_plain(name): value for name, value in (input_map or {}).items()}
        handed_on = {
            name: imported
            for name, value in given.items()
            if (imported := self._variables.get(_variable_behind(value))) is not None
        }
        nodes = {n.name: n for n in graph_def.node if _is_variable(n) and n.name not in given}
        if not nodes and not handed_on:
            return import_it(graph_def, input_map)
        if nodes:
            self._check_place(graph, scope, nodes)
        made = {name: self._make(_joined(scope, name), node) for name, node in nodes.items()}
        variables = {**made, **handed_on}
        rewritten = ref_variables.without_variables(
            graph_def,
            {n: v.variable.dtype.as_datatype_enum for n, v in variables.items() if v.is_reference},
            {name for name, v in variables.items() if not v.is_reference},
        )
        feeds = {k: v for k, v in (input_map or {}).items() if _plain(k) not in handed_on}
        for name, handle in rewritten.used_handles().items():
            feeds[f"{handle}:0"] = tf_private.capture(variables[name].variable.handle)
        return import_it(rewritten.graph_def, feeds)

    def variable_of(self, definition: Any, scope: str | None) -> tf.Variable | None:
        """The variable of a collection; its initializer, too, is known by then."""
        imported = self._variables.get(_joined(scope or "", _plain(definition.variable_name)))
        if imported is None:
            return None
        graph_imports.set_slice_of(imported.variable, definition, scope)
        if imported.is_new:
            imported.is_new = False
            initial = _initial_value(_joined(scope or "", definition.initializer_name))
            if initial is not None:
                self.store.begin_with(self.traced, imported.variable, initial)
        return imported.variable

    def _make(self, name: str, node: Any) -> _Imported:
        collections = self._definitions.get(node.name, set())
        shape = tf.TensorShape(node.attr["shape"].shape)
        is_local = bool(collections) and _Keys.GLOBAL_VARIABLES not in collections
        variable, is_new = self.store.take_in(
            self.traced,
            name,
            shape,
            tf.as_dtype(node.attr["dtype"].type),
            trainable=_Keys.TRAINABLE_VARIABLES in collections,
            is_local=is_local,
        )
        is_reference = node.op in ref_variables.REFERENCES
        self._variables[name] = _Imported(variable, is_reference, is_new)
        return self._variables[name]

    def _check_place(self, graph: tf.Graph, scope: str, names: Any) -> None:
        name = next(iter(names))
        if self.replicas > 1:
            raise ModelFnError(
                f"model_fn imported a graph with variables ({_joined(scope, name)!r}) under a "
                f"strategy of {self.replicas} replicas, which has no copies of them. Train on one "
                "device, or load the model before, by module = tf.saved_model.load(path), and "
                "call module.signatures['default'](...) in model_fn."
            )
        if graph is not self.traced.graph:
            raise ModelFnError(
                f"model_fn imported a graph with variables ({_joined(scope, name)!r}) inside of "
                "tf.cond, tf.while_loop or a function. Import it before, and use it there."
            )
        taken = [_joined(scope, n) for n in names if _joined(scope, n) in self.traced.by_name]
        if taken:
            raise ModelFnError(
                f"model_fn imported a graph whose variable {taken[0]!r} has the name of one that "
                "the model has already. Import it below a name of its own: import_scope='imported'."
            )


def _is_variable(node: Any) -> bool:
    return node.op in ref_variables.REFERENCES or node.op in ref_variables.RESOURCES


def _variable_behind(value: Any) -> str:
    """The name of the variable that a tensor of an imported graph stands for."""
    return value.op.name if isinstance(value, tf.Tensor) and tf.is_symbolic_tensor(value) else ""


def _initial_value(initializer: str) -> tf.Tensor | None:
    """What an op that sets a variable for the first time sets it to."""
    graph = tf.compat.v1.get_default_graph()
    try:
        op = graph.get_operation_by_name(initializer)
    except (KeyError, ValueError):
        return None
    for writer in [op, *op.control_inputs]:
        if writer.type == "AssignVariableOp":
            return writer.inputs[1]
    return None


def _plain(name: Any) -> str:
    return tf.compat.as_str(name).removesuffix(":0")


def _joined(scope: str, name: str) -> str:
    return f"{scope}/{name}" if scope else name
