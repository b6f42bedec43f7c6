"""Large tables of which a step uses a few rows, looked up where they are.

Keras' Embedding reads its table whole and then takes rows of it. Somebody who holds the value of
a table makes every update of it copy it first. The rows are the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compat.v1 import NodeDef

from estimand.engine.rewriting import subgraph
from estimand.engine.rewriting.subgraph import Uses, data_of, op_of, waits_of

_TYPES_OF_ROWS = (tf.int32.as_datatype_enum, tf.int64.as_datatype_enum)  # that a lookup takes


def look_up_rows(nodes: dict[str, Any], kept: set[str]) -> None:
    """Replace the reading of a whole variable and taking rows of it by a lookup."""
    uses = Uses(nodes)
    instead: dict[str, list[str]] = {}  # by read: lookups in its place
    for read in list(nodes.values()):
        if not subgraph.is_plain_read(read):
            continue
        users = uses.of.get(read.name, [])
        writers = uses.writers(read.input[0])
        first_write = min((uses.place[w.name] for w in writers), default=len(nodes))
        takes = [n for n in users if _takes_rows(n, read, nodes)]
        takes = [n for n in takes if uses.place[n.name] < first_write]
        for take in takes:
            _make_lookup(take, read)
        if read.name not in kept and len(takes) == len(users):
            instead[read.name] = [take.name for take in takes]
    _wait_for(nodes, instead)


def _takes_rows(node: NodeDef, read: NodeDef, nodes: dict[str, Any]) -> bool:
    if node.op != "GatherV2" or node.attr["batch_dims"].i:
        return False
    if node.attr["Tindices"].type not in _TYPES_OF_ROWS:
        return False
    values, indices, axis = data_of(node)
    axis_node = nodes.get(op_of(axis))
    if op_of(values) != read.name or op_of(indices) == read.name:
        return False
    if axis_node is None or axis_node.op != "Const":
        return False
    return not np.any(tf.make_ndarray(axis_node.attr["value"].tensor))


def _make_lookup(node: NodeDef, read: NodeDef) -> None:
    _, indices, _ = data_of(node)
    waits = waits_of(node)
    kind, of_indices = node.attr["Tparams"].type, node.attr["Tindices"].type
    node.op = "ResourceGather"
    node.device = read.device
    subgraph.set_inputs(node, [read.input[0], indices], waits)
    for key in list(node.attr):
        if key != "_output_shapes":
            del node.attr[key]
    node.attr["dtype"].type = kind
    node.attr["Tindices"].type = of_indices
    node.attr["validate_indices"].b = True


def _wait_for(nodes: dict[str, Any], instead: dict[str, list[str]]) -> None:
    """Whoever waits for a read that is no more waits for what took its place."""
    if not instead:
        return
    for node in nodes.values():
        waits = waits_of(node)
        if any(op_of(w) in instead for w in waits):
            new = [f"^{n}" for w in waits for n in instead.get(op_of(w), [op_of(w)])]
            subgraph.set_inputs(node, data_of(node), new)
