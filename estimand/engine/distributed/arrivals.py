"""What changes at a server without need of the worker, as a count of steps, waits for its message.

The engine has such an op wait for the batch, so that a step without one changes nothing. The batch
is at the worker: each server would be told of it in a message of its own. The first one that it
gets anyway, in which the rows are that are wanted, says the same.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping

from tensorflow.compat.v1 import GraphDef

from estimand.core import tf_private
from estimand.engine.rewriting.subgraph import is_plain_read, op_of


def wait_for(part: GraphDef, messages: Mapping[str, str], places: Mapping[str, str]) -> None:
    """For each server `messages` has the op that the first message of a step arrives at.

    `places` has where ops run that do not say so themselves.
    """
    needed = {node.name: [op_of(tensor) for tensor in node.input] for node in part.node}
    users = collections.defaultdict(list)
    for name, inputs in needed.items():
        for source in inputs:
            users[source].append(name)
    for server, message in messages.items():
        apart = _reached(message, needed) | _reached(message, users)  # one needs the other
        for node in part.node:
            here = (node.device or places.get(node.name)) == server and node.name not in apart
            if here and tf_private.is_stateful(node.op) and not is_plain_read(node):
                node.input.append(f"^{message}")


def _reached(begin: str, following: Mapping[str, Iterable[str]]) -> set[str]:
    found, stack = {begin}, [begin]
    while stack:
        new = [name for name in following.get(stack.pop(), ()) if name not in found]
        found.update(new)
        stack += new
    return found
