"""Rows of what Adagrad keeps beside a table, read shortly before they are updated.

The rows of a batch are all over the memory. A lookup asks for the next ones ahead, the kernel that
updates them does not: it waits for each. The rows of the table itself were looked up in this step.
"""

from __future__ import annotations

from tensorflow.compat.v1 import NodeDef

from estimand.engine.rewriting.subgraph import data_of, op_of
from estimand.engine.rewriting.workbench import Workbench

UPDATE = "ResourceSparseApplyAdagradV2"


def read_ahead(node: NodeDef, bench: Workbench) -> None:
    """Have an update of rows wait for a lookup of the same rows of its sums of squares."""
    _, sums, _, _, gradient, rows = data_of(node)
    types = {"dtype": node.attr["T"].type, "Tindices": node.attr["Tindices"].type}
    # Not before the gradient is there: until then they would be forgotten again.
    waits = [f"^{op_of(gradient)}"] if op_of(gradient) in bench.nodes else []
    given = [sums, rows, *waits]
    node.input.append("^" + bench.new(node, "estimand_rows", "ResourceGather", given, **types))
