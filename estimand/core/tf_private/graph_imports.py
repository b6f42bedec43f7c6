"""Graphs that are imported while a model function is traced.

`tf.import_graph_def`, `tf.compat.v1.train.import_meta_graph`, the loader of SavedModels and
`hub.Module` meet in two functions of TensorFlow, which public API has no way to intercept.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

import tensorflow as tf

from estimand.core.interpreter.swapping import swapped


class Importer(Protocol):
    """Who is asked when a graph is imported."""

    def import_graph(
        self,
        import_it: Callable[[Any, dict[str, Any]], Any],
        graph_def: Any,
        input_map: Mapping[str, Any] | None,
        scope: str,
    ) -> Any:
        """Import a message below a name scope; `import_it` does, with a message and a map."""

    def with_collections(self, meta_graph: Any, wanted: Callable[[str], bool]) -> Any:
        """A context around the import of a graph with its collections."""

    def variable_of(self, definition: Any, scope: str | None) -> Any:
        """The variable that a `VariableDef` of an imported graph means; None: TensorFlow's own."""


@contextlib.contextmanager
def importing_graphs(importer: Importer) -> Iterator[None]:
    """Inside, `importer` is asked."""
    from tensorflow.python.framework import importer as tf_importer
    from tensorflow.python.framework import meta_graph, ops

    def through_importer(original: Callable[..., Any]) -> Callable[..., Any]:
        def import_graph(graph_def: Any, input_map: Any = None, **arguments: Any) -> Any:
            with ops.name_scope(arguments.pop("name", None), "import") as scope:
                pass  # the scope that TensorFlow would choose, which is then used as it is

            def import_it(graph_def: Any, input_map: Any) -> Any:
                return original(graph_def, input_map=input_map, name=scope, **arguments)

            return importer.import_graph(import_it, graph_def, input_map, scope.rstrip("/"))

        return import_graph

    def with_collections(original: Callable[..., Any]) -> Callable[..., Any]:
        def import_meta_graph(meta_graph_or_file: Any, *args: Any, **kwargs: Any) -> Any:
            message = meta_graph_or_file
            if not isinstance(message, tf.compat.v1.MetaGraphDef):
                message = meta_graph.read_meta_graph_file(message)
            wanted = kwargs.get("restore_collections_predicate", lambda key: True)
            with importer.with_collections(message, wanted):
                return original(message, *args, **kwargs)

        return import_meta_graph

    def with_our_variables(original: Callable[..., Any]) -> Callable[..., Any]:
        def get_from_proto_function(collection: str) -> Any:
            from_proto = original(collection)
            if from_proto is None or ops.get_collection_proto_type(collection) is not VariableDef:
                return from_proto

            def variable(definition: Any, import_scope: str | None = None) -> Any:
                ours = importer.variable_of(definition, import_scope)
                return ours if ours is not None else from_proto(definition, import_scope)

            return variable

        return get_from_proto_function

    from tensorflow.core.framework.variable_pb2 import VariableDef

    swaps = [
        (tf_importer, "_import_graph_def_internal", through_importer),
        (meta_graph, "import_scoped_meta_graph_with_return_elements", with_collections),
        (ops, "get_from_proto_function", with_our_variables),
    ]
    with swapped(swaps):
        yield


def variable_definitions(
    meta_graph: Any, wanted: Callable[[str], bool]
) -> Iterator[tuple[str, Any]]:
    """Collection and `VariableDef` of each variable in the collections of a graph.

    Which collections hold variables, and what their message is, has no public name.
    """
    from tensorflow.core.framework.variable_pb2 import VariableDef
    from tensorflow.python.framework import ops

    for key, collection in meta_graph.collection_def.items():
        # The variables of metrics have no kind of their own.
        kind = ops.get_collection_proto_type(key)
        of_metrics = key == ops.GraphKeys.METRIC_VARIABLES
        if wanted(key) and (kind is VariableDef or of_metrics):
            for serialized in collection.bytes_list.value:
                yield key, VariableDef.FromString(serialized)


def set_slice_of(variable: tf.Variable, definition: Any, scope: str | None) -> None:
    """Let `variable` be saved as the part of a whole that its `VariableDef` says it is."""
    if definition.HasField("save_slice_info_def"):
        info = tf.Variable.SaveSliceInfo(
            save_slice_info_def=definition.save_slice_info_def, import_scope=scope
        )
        variable._set_save_slice_info(info)


def graphs_around(graph: Any) -> Iterator[Any]:
    """A graph, and those that it is a function in."""
    while graph is not None:
        yield graph
        graph = getattr(graph, "outer_graph", None)
