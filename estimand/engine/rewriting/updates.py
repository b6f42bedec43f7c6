"""Updates of variables that are written as many ops, done in few passes over memory.

An optimizer of Keras is a dozen ops on whole variables, each of which reads and writes all of
their numbers; a kernel that does several at once reads them once. `variable - factor * change` is
what the kernel of gradient descent computes, each number with the same roundings in the same
order; for Adam see `adam`.

Which updates are replaced depends on nothing but the step, not on what is fetched beside it.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow.compat.v1 import NodeDef

from estimand.engine.rewriting import adam, averages, row_slots, subgraph
from estimand.engine.rewriting.subgraph import data_of
from estimand.engine.rewriting.workbench import Workbench

_DIFFERENCE, _SUM = "AssignSubVariableOp", "AssignAddVariableOp"
_DESCENT = "ResourceApplyGradientDescent"


def in_few_passes(nodes: dict[str, Any], graph: tf.Graph) -> None:
    """Replace updates by the kernels that do them at once."""
    bench = Workbench(nodes, graph)
    for node in list(nodes.values()):
        if node.op == _DIFFERENCE:
            adam.replace(node, bench)
    for node in list(nodes.values()):  # of averages, too, where Adam as a whole was none
        if node.op in (_DIFFERENCE, _SUM):
            _replace_descent(node, bench)
        elif node.op == row_slots.UPDATE:
            row_slots.read_ahead(node, bench)
    bench.finish()


def _replace_descent(node: NodeDef, bench: Workbench) -> None:
    """`variable -= change * factor`, or += with a constant factor."""
    handle, value = data_of(node)
    product = bench.op(value, "Mul", node)
    if product is None or bench.shape(value) is None:
        return
    for change, factor in (data_of(product), data_of(product)[::-1]):
        if bench.shape(change) != bench.shape(value) or bench.shape(factor) != ():
            continue
        source = factor
        if node.op == _SUM:
            negative = _negative(factor, node, bench)
            if negative is None:
                continue
            factor = negative
        waits = subgraph.waits_up_to([node], [source, change], bench.nodes)
        bench.become(node, _DESCENT, [handle, factor, change], waits)
        return


def _negative(factor: str, node: NodeDef, bench: Workbench) -> str | None:
    source = bench.nodes.get(subgraph.op_of(factor))
    value = averages.number(factor, bench.nodes)
    if source is None or value is None or source.input:
        return None
    dtype = tf.dtypes.as_dtype(source.attr["dtype"].type)
    return bench.constant(node, "estimand_negative", -value, dtype)
