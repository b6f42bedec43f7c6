"""Updates of variables that are written as many ops, done in few passes over memory.

An optimizer of Keras is a dozen ops on whole variables, each of which reads and writes all of
their numbers; a kernel that does several at once reads them once. Two such kernels compute
exactly what is written, each number with the same roundings in the same order:

- `variable - factor * change` is what the kernel of gradient descent does;
- `variable - m * rate / (sqrt(v) + epsilon)`, the end of Adam, is what the kernel of Adagrad does
  when it is told to leave `v` as it is. Where v1's Adam has moved m and v by rows, the kernel of
  Adam does all of it (`sparse_adam`).

Which updates are replaced depends on nothing but the step, not on what is fetched beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.compat.v1 import NodeDef

from estimand.engine.rewriting import sparse_adam, subgraph
from estimand.engine.rewriting.subgraph import Uses, data_of, op_of

_DIFFERENCE, _SUM = "AssignSubVariableOp", "AssignAddVariableOp"
_DESCENT, _ADAM = "ResourceApplyGradientDescent", "ResourceApplyAdam"
_ADAGRAD = "ResourceApplyAdagradV2"
_TYPES = (tf.float32, tf.float64)


def in_few_passes(nodes: dict[str, Any], graph: tf.Graph) -> None:
    """Replace updates by the kernels that do them at once."""
    work = _Updates(nodes, graph)
    for node in list(nodes.values()):
        if node.op in (_DIFFERENCE, _SUM) and not work.replace_adam(node):
            work.replace_descent(node)
    subgraph.put_before(nodes, work.added)


class _Updates:
    def __init__(self, nodes: dict[str, Any], graph: tf.Graph) -> None:
        self._nodes, self._graph = nodes, graph
        self._uses = Uses(nodes)
        self.added: dict[str, list[Any]] = {}

    def replace_descent(self, node: NodeDef) -> bool:
        """`variable -= change * factor`, or += with a constant factor; whether it was one."""
        handle, value = data_of(node)
        product = self._op(value, "Mul", node)
        if product is None or self._shape(value) is None:
            return False
        for change, factor in (data_of(product), data_of(product)[::-1]):
            if self._shape(change) != self._shape(value) or self._shape(factor) != ():
                continue
            source = factor
            if node.op == _SUM:
                negative = self._negative(factor, node)
                if negative is None:
                    continue
                factor = negative
            given = [handle, factor, change]
            self._become(node, _DESCENT, given, self._waits_up_to(node, source, change))
            return True
        return False

    def replace_adam(self, node: NodeDef) -> bool:
        """`variable -= m * rate / (sqrt(v) + epsilon)`, where m and v are variables, too."""
        if node.op != _DIFFERENCE:
            return False
        handle, value = data_of(node)
        quotient = self._op(value, "RealDiv", node)
        if quotient is None:
            return False
        product, total = (self._op(i, op, node) for i, op in
                          zip(data_of(quotient), ("Mul", "AddV2"), strict=True))  # fmt: skip
        if product is None or total is None:
            return False
        moved = self._read_and_scalar(product, node)
        root, epsilon = data_of(total)
        root_node = self._op(root, "Sqrt", node)
        if moved is None or root_node is None or self._shape(epsilon) != ():
            return False
        read_m, rate = moved
        read_v = self._last_read(data_of(root_node)[0], node)
        if read_v is None:
            return False
        shape = self._shape(value)
        if shape is None or {self._shape(read_m.name), self._shape(read_v.name)} != {shape}:
            return False
        if not self._make_sparse_adam(node, handle, read_m, read_v, rate, epsilon):
            self._divide_by_root(node, handle, read_m, read_v, rate, epsilon)
        return True

    def _make_sparse_adam(
        self, node: NodeDef, handle: str, m: NodeDef, v: NodeDef, rate: str, epsilon: str
    ) -> bool:
        handles = m.input[0], v.input[0]
        first, second = (sparse_adam.moved(h, self._nodes, self._uses) for h in handles)
        shape = self._shape(m.name)
        if first is None or second is None or first.rows != second.rows or not shape:
            return False
        if not sparse_adam.is_square_of(second.added, first.added, self._nodes):
            return False
        if self._rank(first.rows) != 1:
            return False
        writers = [*first.written_by, *second.written_by]
        values, rows = sparse_adam.values_and_rows(first, self._nodes)
        needed = [rate, epsilon, values, rows]
        ways = subgraph.waits_up_to([node, *writers], needed, self._nodes)
        waits = [w for w in ways if op_of(w) not in {writer.name for writer in writers}]
        inside = [op_of(n) for n in [*needed, *waits] if op_of(n) in self._nodes]
        if any(self._uses.runs_before(w.name, n) for w in writers for n in inside):
            return False
        name = f"{node.name}/estimand_gradient"
        summed = sparse_adam.summed_rows(name, first, values, rows, node, shape)
        if not sparse_adam.are_looked_up(rows, handle, op_of(values), self._nodes, self._uses):
            lookup = f"{node.name}/estimand_lookup"
            self._add(node, sparse_adam.lookup(lookup, first, handle, rows, node))
            summed[-1].input.append(f"^{lookup}")  # or chance says which of them fails
        self._add(node, *summed)
        dtype = tf.dtypes.as_dtype(node.attr["dtype"].type)
        zero = self._scalar(node, "estimand_zero", 0, dtype)
        given = [handle, *handles, zero, zero, rate, first.beta, second.beta, epsilon, name]
        self._become(node, _ADAM, given, waits)
        for writer in writers:  # whoever waits for them waits for what does it all
            writer.CopyFrom(subgraph.new_node(writer.name, "NoOp", [f"^{node.name}"], writer))
        return True

    def _divide_by_root(
        self, node: NodeDef, handle: str, m: NodeDef, v: NodeDef, rate: str, epsilon: str
    ) -> None:
        waits = self._waits_up_to(node, m.name, rate, epsilon)
        self._become(node, _ADAGRAD, [handle, v.input[0], rate, epsilon, m.name], waits)
        node.attr["update_slots"].b = False  # v stays as it is

    def _waits_up_to(self, node: NodeDef, *inputs: str) -> list[str]:
        return subgraph.waits_up_to([node], inputs, self._nodes)

    def _read_and_scalar(self, product: NodeDef, node: NodeDef) -> tuple[Any, str] | None:
        for tensor, factor in (data_of(product), data_of(product)[::-1]):
            read = self._last_read(tensor, node)
            if read is not None and self._shape(factor) == ():
                return read, factor
        return None

    def _last_read(self, name: str, node: NodeDef) -> Any | None:
        """The reading of a variable that the step has changed before and changes no more."""
        read = self._op(name, "ReadVariableOp", node)
        if read is None or op_of(read.input[0]) == op_of(node.input[0]):
            return None
        writers = self._uses.writers(read.input[0])
        done = all(self._uses.runs_before(w.name, read.name) for w in writers)
        return read if writers and done else None

    def _op(self, name: str, op: str, beside: NodeDef) -> Any | None:
        """What computes a tensor, if it is such an op of a type and place that fits."""
        node = self._nodes.get(op_of(name))
        if node is None or node.op != op or node.device not in ("", beside.device):
            return None
        kind = node.attr["T"] if "T" in node.attr else node.attr["dtype"]
        alike = kind.type == beside.attr["dtype"].type
        return node if alike and tf.dtypes.as_dtype(kind.type) in _TYPES else None

    def _shape(self, name: str) -> tuple[int, ...] | None:
        shape = self._graph.get_tensor_by_name(subgraph.tensor(name)).shape
        return tuple(shape.as_list()) if shape.is_fully_defined() else None

    def _rank(self, name: str) -> int | None:
        return self._graph.get_tensor_by_name(subgraph.tensor(name)).shape.rank

    def _negative(self, factor: str, node: NodeDef) -> str | None:
        source = self._nodes.get(op_of(factor))
        if source is None or source.op != "Const" or source.input:
            return None
        value = -tf.make_ndarray(source.attr["value"].tensor)
        dtype = tf.dtypes.as_dtype(source.attr["dtype"].type)
        constant = subgraph.constant(f"{node.name}/estimand_negative", value, dtype)
        self._add(node, constant)
        return constant.name

    def _scalar(self, node: NodeDef, name: str, value: int, dtype: tf.DType) -> str:
        number = np.asarray(value, dtype.as_numpy_dtype)
        constant = subgraph.constant(f"{node.name}/{name}", number, dtype)
        self._add(node, constant)
        return constant.name

    def _add(self, node: NodeDef, *made: Any) -> None:
        self.added.setdefault(node.name, []).extend(made)

    def _become(self, node: NodeDef, op: str, inputs: Sequence[str], waits: Sequence[str]) -> None:
        kind = node.attr["dtype"].type
        node.CopyFrom(subgraph.new_node(node.name, op, [*inputs, *waits], node, T=kind))
