"""A step on which updates are being replaced: what is known of it, and what was added so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compat.v1 import NodeDef

from estimand.engine.rewriting import subgraph
from estimand.engine.rewriting.subgraph import Uses, op_of

_TYPES = (tf.float32, tf.float64)


class Workbench:
    """Nodes, and who uses them as they are before any of them is replaced."""

    def __init__(self, nodes: dict[str, Any], graph: tf.Graph) -> None:
        self.nodes, self._graph = nodes, graph
        self.uses = Uses(nodes)
        self.replaced_writers: list[str] = []  # by an op that does more than they did
        self._added: dict[str, list[Any]] = {}  # by node before which they belong

    def op(self, name: str, op: str, beside: NodeDef) -> Any | None:
        """What computes a tensor, if it is such an op of a type and place that fits."""
        node = self.nodes.get(op_of(name))
        if node is None or node.op != op or node.device not in ("", beside.device):
            return None
        kind = node.attr["T"] if "T" in node.attr else node.attr["dtype"]
        alike = kind.type == beside.attr["dtype"].type
        return node if alike and tf.dtypes.as_dtype(kind.type) in _TYPES else None

    def shape(self, name: str) -> tuple[int, ...] | None:
        shape = self._graph.get_tensor_by_name(subgraph.tensor(name)).shape
        return tuple(shape.as_list()) if shape.is_fully_defined() else None

    def rank(self, name: str) -> int | None:
        return self._graph.get_tensor_by_name(subgraph.tensor(name)).shape.rank

    def type_of_elements(self, name: str) -> int:
        dtype = self._graph.get_tensor_by_name(subgraph.tensor(name)).dtype
        return dtype.as_datatype_enum

    def last_read(self, name: str, node: NodeDef) -> Any | None:
        """The reading of a variable that the step has changed before and changes no more."""
        read = self.op(name, "ReadVariableOp", node)
        if read is None or op_of(read.input[0]) == op_of(node.input[0]):
            return None
        writers = self.uses.writers(read.input[0])
        done = all(self.uses.runs_before(w.name, read.name) for w in writers)
        return read if writers and done else None

    def constant(self, node: NodeDef, name: str, value: Any, dtype: tf.DType) -> str:
        """A constant for `node`, whose name goes on with `name`."""
        made = subgraph.constant(f"{node.name}/{name}", np.asarray(value), dtype)
        self.add(node, made)
        return made.name

    def new(self, node: NodeDef, name: str, op: str, inputs: Sequence[str], **types: int) -> str:
        """An op for `node`, whose name goes on with `name`."""
        made = subgraph.new_node(f"{node.name}/{name}", op, inputs, node, **types)
        self.add(node, made)
        return made.name

    def add(self, node: NodeDef, *made: Any) -> None:
        self._added.setdefault(node.name, []).extend(made)

    def become(self, node: NodeDef, op: str, inputs: Sequence[str], waits: Sequence[str]) -> None:
        kind = node.attr["dtype"].type
        node.CopyFrom(subgraph.new_node(node.name, op, [*inputs, *waits], node, T=kind))

    def finish(self) -> None:
        """Put what was added among the nodes."""
        subgraph.put_before(self.nodes, self._added)
