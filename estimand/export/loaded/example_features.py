"""What the tf.Examples of a model hold: read off the operations of its graph that parse them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from estimand.core.interpreter.deferred import deferred
from estimand.export.loaded.arrays import shape_text

if TYPE_CHECKING:
    import tensorflow as tf
else:
    tf = deferred("tensorflow")

# dtype; shape, with None for the rows and for any number of values; and either required, or the
# default where there is one.
Feature = dict[str, Any]


def example_features(graph: tf.compat.v1.GraphDef) -> dict[str, Feature]:
    """Types and shapes by name; empty if nothing is parsed.

    >>> with tf.Graph().as_default() as graph:
    ...     examples = tf.compat.v1.placeholder(tf.string, [None])
    ...     _ = tf.io.parse_example(examples, {"x": tf.io.FixedLenFeature([2], tf.float32)})
    >>> example_features(graph.as_graph_def())
    {'x': {'dtype': 'float32', 'shape': [None, 2], 'required': True}}
    """
    features: dict[str, Feature] = {}
    for nodes in _node_lists(graph):
        by_name = None
        for node in nodes:
            if node.op in _READERS:
                by_name = by_name or {other.name: other for other in nodes}
                features |= dict(_READERS[node.op](node, by_name))
    return features


def _node_lists(graph: tf.compat.v1.GraphDef) -> Iterator[Any]:
    yield graph.node
    for function in graph.library.function:
        yield function.node_def


def _of_version_2(
    node: tf.compat.v1.NodeDef, nodes: Mapping[str, Any]
) -> Iterator[tuple[str, Feature]]:
    sparse, dense, ragged = (_strings(node.input[i], nodes) for i in (2, 3, 4))
    yield from _varying(sparse, node.attr["sparse_types"].list.type)
    yield from _varying(ragged, node.attr["ragged_value_types"].list.type)
    yield from _dense(dense, node, node.input[5:], nodes)


def _of_version_1(
    node: tf.compat.v1.NodeDef, nodes: Mapping[str, Any]
) -> Iterator[tuple[str, Feature]]:
    first, count = 2 + node.attr["Nsparse"].i, node.attr["Ndense"].i
    sparse = [key for name in node.input[2:first] for key in _strings(name, nodes)]
    dense = [key for name in node.input[first : first + count] for key in _strings(name, nodes)]
    yield from _varying(sparse, node.attr["sparse_types"].list.type)
    yield from _dense(dense, node, node.input[first + count :], nodes)


def _of_single(
    node: tf.compat.v1.NodeDef, nodes: Mapping[str, Any]
) -> Iterator[tuple[str, Feature]]:
    sparse = [key.decode("utf-8", "replace") for key in node.attr["sparse_keys"].list.s]
    dense = [key.decode("utf-8", "replace") for key in node.attr["dense_keys"].list.s]
    yield from _varying(sparse, node.attr["sparse_types"].list.type)
    yield from _dense(dense, node, node.input[1:], nodes)


_READERS = {
    "ParseExample": _of_version_1,
    "ParseExampleV2": _of_version_2,
    "ParseSingleExample": _of_single,
}


def _varying(names: Iterable[str], types: Iterable[int]) -> Iterator[tuple[str, Feature]]:
    for name, number in zip(names, types, strict=False):
        yield name, {"dtype": tf.as_dtype(number).name, "shape": [None, None]}


def _dense(
    names: Iterable[str],
    node: tf.compat.v1.NodeDef,
    defaults: Iterable[str],
    nodes: Mapping[str, Any],
) -> Iterator[tuple[str, Feature]]:
    types, shapes = node.attr["Tdense"].list.type, node.attr["dense_shapes"].list.shape
    for name, number, shape, default in zip(names, types, shapes, defaults, strict=False):
        sizes = [size.size if size.size >= 0 else None for size in shape.dim]
        feature = {"dtype": tf.as_dtype(number).name, "shape": [None, *sizes]}
        yield name, {**feature, **_default(_constant(default, nodes))}


def _default(value: Any) -> dict[str, Any]:
    if value is None:  # computed, by whatever
        return {}
    if not value.size:
        return {"required": True}
    same = value.ravel()[:1] if (value == value.ravel()[0]).all() else value
    plain = [v.decode("utf-8", "replace") if isinstance(v, bytes) else v for v in same.tolist()]
    return {"default": plain[0] if len(plain) == 1 else plain}


def _constant(reference: str, nodes: Mapping[str, Any]) -> Any:
    node = nodes.get(reference.lstrip("^").split(":")[0])
    while node is not None and node.op in ("Reshape", "Identity"):  # around defaults
        node = nodes.get(node.input[0].split(":")[0])
    if node is None or node.op != "Const":
        return None
    return tf.make_ndarray(node.attr["value"].tensor)


def _strings(reference: str, nodes: Mapping[str, Any]) -> list[str]:
    """The values of a constant; none if it is no constant."""
    values = _constant(reference, nodes)
    return [] if values is None else [v.decode("utf-8", "replace") for v in values.ravel()]


def feature_text(name: str, feature: Mapping[str, Any]) -> str:
    """A feature in a few words.

    >>> feature_text("age", {"dtype": "float32", "shape": [None], "default": 0.0})
    'age (float32, [?], 0.0 if missing)'
    """
    parts = [str(feature.get("dtype")), shape_text(feature.get("shape"))]
    if "default" in feature:
        parts.append(f"{feature['default']!r} if missing")
    return f"{name} ({', '.join(parts)})"
