"""What changes a variable waits for conditions that were to read it before.

TensorFlow runs the branch of a condition as ops of the graph around it. Whoever is told to wait
for the condition then waits for what its branches *do*: and a branch of a traced model function
does nothing, for mere reads are not counted, as they are in a `tf.function`. Now and then the
update of a variable came before the branch had read it, and a learning rate was that of the next
step. Those who wait for the results of a branch come after all that these are computed from.
"""

from __future__ import annotations

from collections.abc import Iterator

import tensorflow as tf
from tensorflow.compat.v1 import GraphDef, NodeDef

from estimand.engine.rewriting.subgraph import Uses, op_of

_FIRST_GIVEN = {"If": 1, "Case": 1, "StatefulPartitionedCall": 0, "PartitionedCall": 0}
_RESOURCE = tf.resource.as_datatype_enum


def let_updates_wait(part: GraphDef) -> None:
    """Have ops wait for the results of conditions before them that share a variable with them."""
    if not any(map(_handles, part.node)):
        return
    uses = Uses({node.name: node for node in part.node})
    nodes = []
    for node in part.node:
        nodes.append(node)
        waiting = {later.name: later for later in _to_wait(node, uses)}
        if waiting and node.attr["Tout"].list.type:
            results = _results(node)
            nodes.append(results)  # right behind it: what has effects keeps its order
            for later in waiting.values():
                later.input.append(f"^{results.name}")
    ordered = GraphDef(node=nodes)
    del part.node[:]
    part.node.extend(ordered.node)


def _handles(node: NodeDef) -> list[str]:
    """The variables that a condition or call is given."""
    first = _FIRST_GIVEN.get(node.op)
    if first is None:
        return []
    types = enumerate(node.attr["Tin"].list.type, first)
    return [node.input[i] for i, dtype in types if dtype == _RESOURCE]


def _to_wait(condition: NodeDef, uses: Uses) -> Iterator[NodeDef]:
    """Those after it that change what it uses, or use what it changes."""
    for handle in _handles(condition):
        writers = uses.writers(handle)
        changes = any(node.name == condition.name for node in writers)
        for node in uses.of[op_of(handle)] if changes else writers:
            is_later = uses.place[node.name] > uses.place[condition.name]
            if is_later and not uses.runs_before(node.name, condition.name):
                yield node


def _results(condition: NodeDef) -> NodeDef:
    types = condition.attr["Tout"].list
    results = NodeDef(name=f"{condition.name}/results", op="IdentityN", device=condition.device)
    results.input.extend(f"{condition.name}:{i}" for i in range(len(types.type)))
    results.attr["T"].list.CopyFrom(types)
    return results
