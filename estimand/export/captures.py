"""What a traced model took from outside, as something that a graph can hold."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import ModelFnError
from estimand.engine.rewriting import op_kinds
from estimand.engine.tracing.trace import Trace

# The attributes of ops on lookup tables that tell the types of keys and values.
_TABLE_TYPES = (("Tin", "Tout"), ("Tkeys", "Tvalues"))


def fresh_resource_name() -> str:
    """A name that no table of another export has: tables are shared by name in a process."""
    return f"estimand_{uuid.uuid4().hex}"


class Tables:
    """Lookup tables of a trace, made again in the graph that is being built."""

    def __init__(self, trace: Trace) -> None:
        self.initializers: list[tf.Operation] = []
        self._prefix = fresh_resource_name()
        self._numbers = itertools.count()
        self._functions = {f.signature.name: f for f in trace.graph.as_graph_def().library.function}
        self._objects: dict[int, Any] = {
            id(handle): table
            for table in trace.kept
            if (handle := getattr(table, "resource_handle", None)) is not None
        }
        self._filled_by_graph = {
            op.inputs[0].name
            for op in trace.collection(tf.compat.v1.GraphKeys.TABLE_INITIALIZERS)
            if len(op.inputs) > 0
        }

    def make(self, outer: tf.Tensor, inner: tf.Tensor) -> tf.Tensor:
        """The handle of a table with the same contents, filled when the model is loaded."""
        name = f"{self._prefix}/{next(self._numbers)}"
        table = self._objects.get(id(outer))
        if table is not None and inner.name in self._filled_by_graph:
            return _new_table(table.key_dtype, table.value_dtype, name)
        users = _users_of(inner, self._functions)
        exported = next((_contents(outer, *types) for types in _types_in(users)), None)
        if exported is None:
            raise ModelFnError(
                f"The model uses {inner.op.name!r}, a resource made outside of the exported graph "
                "that is neither a variable nor a lookup table; it cannot travel in a SavedModel. "
                "Make it inside model_fn, or do without it in mode PREDICT."
            )
        keys, values = exported
        if len(values.shape) > 1:
            return self._table_of_rows(keys, values, name)
        handle = _new_table(keys.dtype, values.dtype, name)
        self.initializers.append(self._fill(table, handle, keys, values))
        return handle

    def _fill(
        self, table: Any, handle: tf.Tensor, keys: tf.Tensor, values: tf.Tensor
    ) -> tf.Operation:
        from_file = tf_private.text_file_of_table(table)
        if from_file is not None:
            path, how = from_file
            filename = tf.constant(path, name="asset_filepath")
            return tf.raw_ops.InitializeTableFromTextFileV2(
                table_handle=handle, filename=filename, **how
            )
        return tf.raw_ops.InitializeTableV2(
            table_handle=handle, keys=tf.constant(keys.numpy()), values=tf.constant(values.numpy())
        )

    def _table_of_rows(self, keys: tf.Tensor, values: tf.Tensor, name: str) -> tf.Tensor:
        handle = tf.raw_ops.MutableHashTableOfTensorsV2(
            key_dtype=keys.dtype,
            value_dtype=values.dtype,
            value_shape=values.shape[1:],
            shared_name=name,
            name="hash_table",
        )
        self.initializers.append(
            tf.raw_ops.LookupTableImportV2(
                table_handle=handle,
                keys=tf.constant(keys.numpy()),
                values=tf.constant(values.numpy()),
            )
        )
        return handle


def _new_table(key_type: tf.DType, value_type: tf.DType, name: str) -> tf.Tensor:
    return tf.raw_ops.HashTableV2(
        key_dtype=key_type, value_dtype=value_type, shared_name=name, name="hash_table"
    )


def replacement(outer: tf.Tensor, inner: tf.Tensor, tables: Tables) -> tf.Tensor:
    """What stands for a captured tensor in the graph that is being built."""
    if outer.dtype == tf.resource and _orders_collectives(inner):
        return _token(f"{inner.op.name}/variable")
    if outer.dtype == tf.resource:
        return tables.make(outer, inner)
    if outer.dtype == tf.variant or not hasattr(outer, "numpy"):
        raise ModelFnError(
            f"The model uses {inner.op.name!r} ({outer.dtype.name}), which was made outside of "
            "the exported graph and is no plain value; make it inside model_fn."
        )
    return tf.constant(outer.numpy(), outer.dtype, name=f"{inner.op.name}/value")


def _orders_collectives(tensor: tf.Tensor) -> bool:
    """Whether a resource only keeps the sums of replicas from overtaking each other."""
    users = tensor.consumers()
    return bool(users) and all(op.type.startswith("Collective") for op in users)


def _token(name: str) -> tf.Tensor:
    return tf.compat.v1.Variable(
        0.0,
        trainable=False,
        collections=[tf.compat.v1.GraphKeys.LOCAL_VARIABLES],
        name=name,
        use_resource=True,
    ).handle


def _users_of(tensor: tf.Tensor, functions: Mapping[str, Any]) -> Iterator[Any]:
    """The messages of the ops that take a tensor, also inside of functions that it is given to."""
    waiting = [
        (op.node_def, len(op.inputs), place)
        for op in tensor.consumers()
        for place, given in enumerate(op.inputs)
        if given is tensor
    ]
    seen = set()
    while waiting:
        node, count, place = waiting.pop()
        yield node
        for name in op_kinds.functions_called(node):
            function = functions[name]
            # What precedes the arguments decides which of the functions is called.
            argument = place - (count - len(function.signature.input_arg))
            if argument < 0 or (name, argument) in seen:
                continue
            seen.add((name, argument))
            wanted = function.signature.input_arg[argument].name
            for inside in function.node_def:
                inputs = [name for name in inside.input if not name.startswith("^")]
                waiting += [
                    (inside, len(inputs), i) for i, name in enumerate(inputs) if name == wanted
                ]


def _types_in(nodes: Iterable[Any]) -> Iterator[tuple[tf.DType, tf.DType]]:
    """The types of keys and values that ops on tables have."""
    for node in nodes:
        for keys, values in _TABLE_TYPES:
            if node.op.startswith("LookupTable") and {keys, values} <= set(node.attr):
                key_type, value_type = node.attr[keys].type, node.attr[values].type
                yield tf.dtypes.as_dtype(key_type), tf.dtypes.as_dtype(value_type)


def _contents(
    handle: tf.Tensor, key_type: tf.DType, value_type: tf.DType
) -> tuple[tf.Tensor, tf.Tensor] | None:
    """Keys and values of a table; None of one with keys of many parts."""
    with tf_private.eager_mode():
        # With other types than the table's this op does not fail, it ends the process.
        keys, values = tf.raw_ops.LookupTableExportV2(
            table_handle=handle, Tkeys=key_type, Tvalues=value_type
        )
    return (keys, values) if len(keys.shape) == 1 else None
