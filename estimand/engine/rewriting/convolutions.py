"""A step's convolutions, poolings and matrix products, handed to oneDNN's kernels.

They are nearly twice as fast on processors on which TensorFlow does not use them by itself (see
`tf_private.onednn`), such as AMD's with AVX2. Sums come out different in the last bits, so this
is a way of running blocks like the others: measured, and kept in model_dir.
"""

from __future__ import annotations

from collections.abc import Iterable

import tensorflow as tf
from tensorflow.compat.v1 import GraphDef, NodeDef

from estimand.core import tf_private

_POOL, _POOL_GRADIENT = "MaxPool", "MaxPoolGrad"
_SAME_WINDOW = ("ksize", "strides", "padding")


def has_convolutions(ops: Iterable[tf.Operation]) -> bool:
    """Whether it is worth a trial: matrix products alone gain nothing."""
    return any("Conv2" in op.type and tf_private.has_onednn_twin(op.type) for op in ops)


def with_onednn(part: GraphDef) -> GraphDef:
    """`part`, a graph's message that may be changed, with oneDNN's ops where they fit."""
    nodes = {node.name: node for node in part.node}
    gradients = [n for n in part.node if n.op == _POOL_GRADIENT and _fits(n)]
    # What the forward op noted about where each maximum was, its gradient has to be given.
    pairs = [(n, nodes.get(n.input[1].removesuffix(":0"))) for n in gradients]
    together = {n.name: pool for n, pool in pairs if pool is not None and _belong(n, pool)}
    noting = {pool.name for pool in together.values()}
    for node in part.node:
        if not _fits(node) or (node.op == _POOL_GRADIENT and node.name not in together):
            continue
        if node.op == _POOL:
            node.attr["workspace_enabled"].b = node.name in noting
        elif node.op == _POOL_GRADIENT:
            node.attr["workspace_enabled"].b = True
            at = sum(not i.startswith("^") for i in node.input)
            node.input.insert(at, f"{together[node.name].name}:1")
        tf_private.make_onednn(node)
    return part


def _belong(gradient: NodeDef, pool: NodeDef) -> bool:
    same = all(gradient.attr.get(a) == pool.attr.get(a) for a in _SAME_WINDOW)
    return pool.op == _POOL and _fits(pool) and same


def _fits(node: NodeDef) -> bool:
    """Whether the twin takes it: plain 32-bit numbers, channels last, on the CPU."""
    if not tf_private.has_onednn_twin(node.op) or "GPU" in node.device:
        return False
    kind, layout, padding = (node.attr.get(a) for a in ("T", "data_format", "padding"))
    if kind is None or kind.type != tf.float32.as_datatype_enum:
        return False
    if layout is not None and layout.s not in (b"", b"NHWC"):
        return False
    if padding is not None and padding.s == b"EXPLICIT":
        return False
    over_batch_or_channels = [
        _numbers(node, a)[i : i + 1] for a in ("ksize", "strides") for i in (0, 3)
    ]
    unusual = {d for numbers in over_batch_or_channels for d in numbers}
    return unusual | set(_numbers(node, "dilations")) <= {1}


def _numbers(node: NodeDef, attribute: str) -> list[int]:
    value = node.attr.get(attribute)
    return [] if value is None else list(value.list.i)
