"""Fewer and larger messages between a worker and the parameter servers.

TensorFlow sends every tensor that crosses from one process to another by a call of its own, which
costs a tenth of a millisecond on either side however small the tensor is: with 26 embeddings that
is most of a step. Here the tensors that go the same way at the same time are put one after the
other into one, and taken apart where they are used. Nothing that is computed changes.

What goes "at the same time" follows from levels: the level of an op is the number of crossings
before it, and no op is below one that it needs. A bundle takes tensors of at most one level and is
used by ops above that level only, so bundles never wait for each other in a circle.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf
from tensorflow.compat.v1 import GraphDef, NodeDef

from estimand.engine.distributed import arrivals, packing, placing
from estimand.engine.distributed.lookups import each_row_once, full, op_of, spec_in

_WORKER = ""
_ARRIVED = "arrived"
# Beyond this, copying a tensor costs more than a message of its own.
_MOST_BYTES = 1 << 18
_READS = ("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape")


@dataclass(frozen=True)
class _Way:
    """From where to where, and which crossing on the way through the step it is."""

    source: str
    target: str
    level: int


_SpecOf = Callable[[str], tf.TensorSpec | None]


def bundled(part: GraphDef, graph: tf.Graph, servers: Mapping[str, str]) -> GraphDef:
    """What computes the same as `part` of `graph`, with less to be sent.

    `servers` says for the name of what stands for a variable on which device the variable is.
    """
    smaller, made = each_row_once(part, graph, servers)

    def spec_of(tensor: str) -> tf.TensorSpec | None:
        return made.get(full(tensor)) or spec_in(graph, tensor)

    _keep_order(smaller, servers)
    nodes = {node.name: node for node in smaller.node}
    fixed = {name: _place(node, servers) for name, node in nodes.items()}
    order = _in_order(nodes)
    if order is None or not any(fixed.values()):
        return part
    places = placing.placed(order, nodes, fixed, spec_of)
    placing.put(smaller, fixed, places)
    nodes = {node.name: node for node in smaller.node}
    places |= {name: node.device for name, node in nodes.items() if name not in places}
    order = [*(name for name in nodes if name not in fixed), *order]
    bundles = collections.defaultdict(list)
    for (tensor, target), level in _crossings(order, nodes, places, spec_of).items():
        source = places.get(op_of(tensor), _WORKER)
        bundles[_Way(source, target, level)].append(tensor)
    several = {way: tensors for way, tensors in bundles.items() if len(tensors) > 1}
    messages = _put_in(smaller, several, places, spec_of)
    arrivals.wait_for(smaller, messages, places)
    return smaller


def _keep_order(part: GraphDef, servers: Mapping[str, str]) -> None:
    """Say which use of a variable waits for which: so far, the order of the ops told it."""
    changed: dict[str, str] = {}
    read: dict[str, list[str]] = collections.defaultdict(list)
    for node in part.node:
        before: set[str] = set()
        for variable in {op_of(i) for i in node.input} & servers.keys():
            before |= {changed[variable]} if variable in changed else set()
            if node.op in _READS:
                read[variable].append(node.name)
            else:
                before |= set(read.pop(variable, ()))
                changed[variable] = node.name
        node.input.extend(sorted({f"^{name}" for name in before} - set(node.input)))


def _crossings(
    order: Sequence[str], nodes: Mapping[str, NodeDef], places: Mapping[str, str], spec_of: _SpecOf
) -> dict[tuple[str, str], int]:
    """For each tensor, and each place that it is sent to, up to which level that can wait."""
    levels = _levels(order, nodes, places)
    deadlines: dict[tuple[str, str], int] = {}
    for name in order:
        for tensor in _data_inputs(nodes[name]):
            same = places.get(op_of(tensor), _WORKER) == places[name]
            if not same and not _goes_alone(tensor, nodes, spec_of):
                key, level = (tensor, places[name]), levels[name] - 1
                deadlines[key] = min(level, deadlines.get(key, level))
    return deadlines


def _place(node: NodeDef, servers: Mapping[str, str]) -> str:
    """The server that an op runs at, since it uses a variable there; else the worker."""
    devices = {servers[op_of(tensor)] for tensor in node.input if op_of(tensor) in servers}
    calls = any(value.HasField("func") or value.list.func for value in node.attr.values())
    return devices.pop() if len(devices) == 1 and not calls else _WORKER


def _in_order(nodes: Mapping[str, NodeDef]) -> list[str] | None:
    """The names such that inputs come first; None: there are cycles, as in v1 loops."""
    needed = {n: {op_of(i) for i in node.input} & nodes.keys() for n, node in nodes.items()}
    users = collections.defaultdict(list)
    for name, inputs in needed.items():
        for needed_op in inputs:
            users[needed_op].append(name)
    missing = {name: len(inputs) for name, inputs in needed.items()}
    ready = [name for name, count in missing.items() if not count]
    for name in ready:  # grows meanwhile
        for user in users[name]:
            missing[user] -= 1
            if not missing[user]:
                ready.append(user)
    return ready if len(ready) == len(nodes) else None


def _levels(
    order: Sequence[str], nodes: Mapping[str, NodeDef], places: Mapping[str, str]
) -> dict[str, int]:
    """As late as possible: a dense variable need not be there before the rows it is used with."""
    earliest: dict[str, int] = {}
    for name in order:
        sources = [op_of(tensor) for tensor in nodes[name].input]
        earliest[name] = max(
            (earliest.get(s, 0) + (places.get(s, _WORKER) != places[name]) for s in sources),
            default=0,
        )
    last = max((earliest[n] for n in order if _is_told(nodes[n], places)), default=0)
    latest: dict[str, int] = {}
    for name in reversed(order):
        # Where nobody waits for it; what the worker is told comes with the last message to it.
        alone = max(earliest[name], last if places[name] == _WORKER else 0)
        level = latest.setdefault(name, alone)
        for source in {op_of(tensor) for tensor in nodes[name].input} & nodes.keys():
            before = level - (places[source] != places[name])
            latest[source] = min(before, latest.get(source, before))
    return latest


def _is_told(node: NodeDef, places: Mapping[str, str]) -> bool:
    """Whether it runs at the worker, and takes what comes from a server."""
    sources = {places.get(op_of(tensor), _WORKER) for tensor in _data_inputs(node)}
    return places[node.name] == _WORKER and bool(sources - {_WORKER})


def _goes_alone(tensor: str, nodes: Mapping[str, NodeDef], spec_of: _SpecOf) -> bool:
    """Whether a tensor is not to be sent with others."""
    if op_of(tensor) in nodes and nodes[op_of(tensor)].op == "Const":
        return True  # TensorFlow makes it where it is used
    spec = spec_of(tensor)
    if spec is None or spec.dtype not in packing.TYPES or spec.shape.rank is None:
        return True
    sizes = spec.shape.as_list()
    if 0 in sizes or sizes.count(None) > 1:
        return True
    return (spec.shape.num_elements() or 0) * spec.dtype.size > _MOST_BYTES


def _put_in(
    part: GraphDef,
    bundles: Mapping[_Way, Sequence[str]],
    places: Mapping[str, str],
    spec_of: _SpecOf,
) -> dict[str, str]:
    """Also says for each server which op the first bundle from the worker arrives at."""
    instead: dict[tuple[str, str], str] = {}  # by the tensor and where it is used
    added: list[Any] = []
    for number, (way, tensors) in enumerate(bundles.items()):
        prefix = f"estimand_bundle_{number}"
        definition, outputs = _bundle(way, [spec_of(t) for t in tensors])
        given = {f"in_{i}": tensor for i, tensor in enumerate(tensors)}
        added.extend(_renamed(definition, prefix, given))
        instead |= {(t, way.target): f"{prefix}/{o}" for t, o in zip(tensors, outputs, strict=True)}
    for node in part.node:
        inputs = [instead.get((t, places[node.name]), t) for t in node.input]
        del node.input[:]
        node.input.extend(inputs)
    part.node.extend(added)
    from_worker = [(way.level, n, way.target) for n, way in enumerate(bundles) if not way.source]
    return {to: f"estimand_bundle_{n}/{_ARRIVED}" for _, n, to in sorted(from_worker, reverse=True)}


def _bundle(way: _Way, specs: Sequence[tf.TensorSpec]) -> tuple[Any, list[str]]:
    """The ops that join tensors and take them apart again; the names of what comes out."""
    with tf.Graph().as_default() as graph:
        given = [
            tf.compat.v1.placeholder(s.dtype, s.shape, name=f"in_{i}") for i, s in enumerate(specs)
        ]
        with tf.device(way.source):
            joined = packing.joined(given)
        with tf.device(way.target):
            outputs = packing.apart(tf.identity(joined, _ARRIVED), specs)
        return graph.as_graph_def(), [t.name.removesuffix(":0") for t in outputs]


def _renamed(definition: Any, prefix: str, given: Mapping[str, str]) -> Iterator[Any]:
    """The ops under names of their own, with what is given in place of their placeholders."""
    for node in definition.node:
        if node.name in given:
            continue
        inputs = [given.get(op_of(i)) or f"{prefix}/{i}" for i in node.input]
        node.name = f"{prefix}/{node.name}"
        del node.input[:]
        node.input.extend(inputs)
        yield node


def _data_inputs(node: NodeDef) -> list[str]:
    return [tensor for tensor in node.input if not tensor.startswith("^")]
