"""Lookups in tables on parameter servers, with every row asked for only once.

In one process a row that occurs many times in a batch is cheapest read as often. Sent from another
one it is the larger part of all bytes: words in a batch repeat themselves. So the worker asks for
each row once, and repeats it itself; and where gradients of rows are added into one of the whole
table, which may happen at the server, it adds up those of a row first. The values are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tensorflow.compat.v1 import GraphDef, NodeDef

_GATHER, _UNIQUE, _REPEAT, _SUM = "ResourceGather", "Unique", "GatherV2", "UnsortedSegmentSum"


def each_row_once(
    part: GraphDef, graph: tf.Graph, servers: Mapping[str, str]
) -> tuple[Any, dict[str, tf.TensorSpec]]:
    """`part` of `graph`, with its lookups rewritten; and what the tensors are that are new in it.

    `servers` has the names of what stands for variables on servers.
    """
    result = tf.compat.v1.GraphDef()
    result.versions.CopyFrom(part.versions)
    result.library.CopyFrom(part.library)
    nodes = {node.name: node for node in part.node}
    known = _known_rows(nodes, graph)
    made: dict[str, tf.TensorSpec] = {}
    for node in part.node:
        if node.op == _GATHER and node.input[0] in servers and _can_repeat(node, graph):
            _add_lookup(result, node, graph, known, made)
        elif node.op == _SUM and (once := known.get(_rows_summed(node, nodes, graph))):
            _add_sum(result, node, once, graph, made)
        else:
            result.node.add().CopyFrom(node)
    return result, made


def _can_repeat(node: NodeDef, graph: tf.Graph) -> bool:
    indices, rows = (spec_in(graph, tensor) for tensor in (node.input[1], node.name))
    if indices is None or rows is None:
        return False
    plain = node.attr["batch_dims"].i == 0 and indices.shape.rank == 1
    return plain and rows.shape[1:].is_fully_defined()


def _known_rows(nodes: Mapping[str, NodeDef], graph: tf.Graph) -> dict[str, str]:
    """Where the model has the rows without repetition already, as for its gradients."""
    gathered: dict[str, str] = {}
    for node in nodes.values():
        if node.op == _UNIQUE and node.attr["out_idx"].type == tf.int32.as_datatype_enum:
            gathered.setdefault(_before_reshape(node.input[0], nodes, graph), node.name)
    return gathered


def _before_reshape(indices: str, nodes: Mapping[str, NodeDef], graph: tf.Graph) -> str:
    """Of one dimension before and after, it changes nothing."""
    source = nodes.get(op_of(indices))
    if source is not None and source.op == "Reshape":
        specs = [spec_in(graph, tensor) for tensor in (source.input[0], indices)]
        if all(spec is not None and spec.shape.rank == 1 for spec in specs):
            indices = source.input[0]
    return full(indices)


def _rows_summed(node: NodeDef, nodes: Mapping[str, NodeDef], graph: tf.Graph) -> str:
    """The rows whose gradients are added up; "": it is another kind of sum."""
    values, indices = (spec_in(graph, tensor) for tensor in node.input[:2])
    if values is None or indices is None or indices.shape.rank != 1:
        return ""
    known = values.shape.rank is not None and values.shape[1:].is_fully_defined()
    return _before_reshape(node.input[1], nodes, graph) if known else ""


def _add_sum(
    result: Any, node: NodeDef, once: str, graph: tf.Graph, made: dict[str, tf.TensorSpec]
) -> None:
    if op_of(node.input[1]) == once:  # it is that sum itself, or comes after it
        result.node.add().CopyFrom(node)
        return
    values = graph.get_tensor_by_name(full(node.input[0]))
    count = result.node.add(name=f"{node.name}/count", op="Size", input=[once])
    count.attr["T"].type = node.attr["Tindices"].type
    count.attr["out_type"].type = node.attr["Tnumsegments"].type
    rows = result.node.add(name=f"{node.name}/rows", op=_SUM)
    rows.input.extend([node.input[0], f"{once}:1", count.name])
    for key in ("T", "Tnumsegments"):
        rows.attr[key].type = node.attr[key].type
    rows.attr["Tindices"].type = tf.int32.as_datatype_enum
    made[f"{count.name}:0"] = tf.TensorSpec([], tf.as_dtype(node.attr["Tnumsegments"].type))
    made[f"{rows.name}:0"] = tf.TensorSpec([None, *values.shape[1:]], values.dtype)
    total = result.node.add()
    total.CopyFrom(node)
    total.input[0], total.input[1] = rows.name, once


def _add_lookup(
    result: Any,
    node: NodeDef,
    graph: tf.Graph,
    known: dict[str, str],
    made: dict[str, tf.TensorSpec],
) -> None:
    indices = graph.get_tensor_by_name(full(node.input[1]))
    rows = graph.get_tensor_by_name(full(node.name))
    once = known.get(indices.name)
    if once is None:
        once = known[indices.name] = f"{node.name}/once"
        unique = result.node.add(name=once, op=_UNIQUE, input=[node.input[1]])
        unique.attr["T"].type = indices.dtype.as_datatype_enum
        unique.attr["out_idx"].type = tf.int32.as_datatype_enum
        made[f"{once}:0"] = tf.TensorSpec([None], indices.dtype)
    lookup = result.node.add()
    lookup.CopyFrom(node)
    lookup.name = f"{node.name}/rows"
    lookup.input[1] = once
    made[f"{lookup.name}:0"] = tf.TensorSpec([None, *rows.shape[1:]], rows.dtype)
    axis = result.node.add(name=f"{node.name}/axis", op="Const")
    axis.attr["dtype"].type = tf.int32.as_datatype_enum
    axis.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(0))
    # Under the old name: whoever asks for the lookup gets what he expects.
    repeat = result.node.add(name=node.name, op=_REPEAT)
    repeat.input.extend([lookup.name, f"{once}:1", axis.name])
    for key, dtype in (("Tparams", rows.dtype), ("Tindices", tf.int32), ("Taxis", tf.int32)):
        repeat.attr[key].type = dtype.as_datatype_enum


def spec_in(graph: tf.Graph, tensor: str) -> tf.TensorSpec | None:
    """What a tensor of `graph` is; None: it was made since, and is not in there."""
    try:
        return tf.TensorSpec.from_tensor(graph.get_tensor_by_name(full(tensor)))
    except KeyError:
        return None


def op_of(tensor: str) -> str:
    """The name of the op in a reference to one of its outputs, or to itself."""
    return tensor.lstrip("^").split(":")[0]


def full(tensor: str) -> str:
    """A reference to a tensor as its name, with the number of the output."""
    return tensor if ":" in tensor else f"{tensor}:0"
