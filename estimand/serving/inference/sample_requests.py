"""Signatures with a request to start from: what the page's form and our client ask for."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from estimand.export.loaded.example_features import example_features
from estimand.export.loaded.reading import describe_signature
from estimand.serving.protos.composite_names import part_names

if TYPE_CHECKING:
    from estimand.serving.models.servable import Servable

_MOST_VALUES = 20_000  # of one input, in an example
_LINE = 88
_ACTIONS = {
    "tensorflow/serving/classify": "classify",
    "tensorflow/serving/regress": "regress",
}


def describe(name: str, number: int, servable: Servable) -> dict[str, Any]:
    """The signatures of a version, each with the body of a request that it would accept."""
    graph = getattr(servable, "graph", None)  # what is no SavedModel has none
    features = example_features(graph) if graph is not None else {}
    signatures = {}
    for key, signature in sorted(servable.signatures.items()):
        described = describe_signature(signature.definition)
        signatures[key] = {
            "method": described["method"],
            "action": _ACTIONS.get(described["method"], "predict"),
            "inputs": described["inputs"],
            "outputs": described["outputs"],
            "features": features if takes_examples(described["inputs"]) else {},
            **_request(key, described, features),
        }
    return {"model": name, "version": str(number), "signatures": signatures, "features": features}


def _request(
    name: str, described: Mapping[str, Any], features: Mapping[str, Any]
) -> dict[str, str]:
    body: dict[str, Any] = {} if name == "serving_default" else {"signature_name": name}
    inputs = described["inputs"]
    notes = []
    if described["method"] in _ACTIONS:
        body["examples"] = [_example_row(features) or {"x": 1.0}]
        if not features:
            notes.append("The model does not tell what its tf.Examples hold: name the features.")
    else:
        values, notes = _values(inputs, features)
        body |= values
    return {"request": pretty(body), "note": " ".join(notes)}


def _values(
    inputs: Mapping[str, Any], features: Mapping[str, Any]
) -> tuple[dict[str, Any], list[str]]:
    """As rows if each input has some, else as columns."""
    by_rows = bool(inputs) and all(
        _has_rows(info) and not info.get("kind") for info in inputs.values()
    )
    notes = []
    values: dict[str, Any] = {}
    for key, info in inputs.items():
        if info.get("kind"):
            values |= _parts(key, info)
            notes.append(f"{key} is {info['kind']}: it is sent as several arrays.")
            continue
        shape = info["shape"][1:] if by_rows else info["shape"] or []
        if math.prod(size or 1 for size in shape) > _MOST_VALUES:
            notes.append(f"{key} is too large for an example: paste values of your own.")
            shape = [0]
        values[key] = _filled(shape, _value(key, info["dtype"]))
    if takes_examples(inputs) and features:
        key = next(iter(inputs))
        values[key] = {"b64": base64.b64encode(_example(_example_row(features))).decode()}
        notes.append(f"{key} takes serialized tf.Examples.")
    if not by_rows:
        return {"inputs": values}, notes
    row: Any = values if len(values) > 1 else next(iter(values.values()))
    return {"instances": [row]}, notes


def _parts(key: str, info: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays of a sparse or ragged input with one value.

    >>> _parts("ids", {"kind": "sparse", "dtype": "int64", "shape": [None, 9], "parts": "abc"})
    {'ids/indices': [[0, 0]], 'ids/values': [1], 'ids/dense_shape': [1, 9]}
    """
    names = part_names(key, info["kind"], len(info["parts"]))
    value = [_value(key, info["dtype"])]
    if info["kind"] != "sparse":
        return {name: [0, 1] if place else value for place, name in enumerate(names)}
    sizes = [size or 1 for size in info["shape"] or (None, None)]
    return dict(zip(names, ([[0] * len(sizes)], value, sizes), strict=True))


def takes_examples(inputs: Mapping[str, Any]) -> bool:
    """Whether these may be serialized tf.Examples: one input, one string a row."""
    if len(inputs) != 1:
        return False
    info = next(iter(inputs.values()))
    return info["dtype"] == "string" and len(info["shape"] or [None]) == 1


def _has_rows(info: Mapping[str, Any]) -> bool:
    return bool(info["shape"]) and info["shape"][0] is None


def _value(name: str, dtype: str) -> Any:
    if dtype == "string":
        return {"b64": "AAEC"} if name.endswith("_bytes") else "text"
    if dtype == "bool":
        return True
    return 1 if "int" in dtype else 1.0


def _filled(shape: list[int | None], value: Any) -> Any:
    """
    >>> _filled([2, None], 1)
    [[1], [1]]
    """
    for size in reversed(shape):
        value = [value] * (1 if size is None else size)
    return value


def _example_row(features: Mapping[str, Any]) -> dict[str, Any]:
    row = {}
    for name, info in features.items():
        shape = (info["shape"] or [None])[1:]
        value = _value(name, info["dtype"])
        count = min(math.prod(size or 1 for size in shape), _MOST_VALUES)
        row[name] = value if count == 1 else [value] * count
    return row


def sample_example(graph: Any) -> bytes | None:
    """A serialized tf.Example with the features that the graph parses; None if it parses none."""
    features = example_features(graph)
    return _example(_example_row(features)) if features else None


def _example(row: Mapping[str, Any]) -> bytes:
    from tensorflow.core.example import example_pb2

    example = example_pb2.Example()
    for name, value in row.items():
        values = value if isinstance(value, list) else [value]
        feature = example.features.feature[name]
        if isinstance(values[0], bool | int):
            feature.int64_list.value.extend(map(int, values))
        elif isinstance(values[0], float):
            feature.float_list.value.extend(values)
        else:
            feature.bytes_list.value.extend(str(item).encode() for item in values)
    return example.SerializeToString()


def pretty(value: Any, indent: str = "") -> str:
    """JSON in as few lines as can be read.

    >>> print(pretty({"instances": [{"a": [1, 2], "b": 3}]}))
    {"instances": [{"a": [1, 2], "b": 3}]}
    """
    line = json.dumps(value)
    plain = isinstance(value, list) and not any(isinstance(inner, list | dict) for inner in value)
    if len(line) + len(indent) <= _LINE or plain or not isinstance(value, list | dict):
        return line
    deeper = indent + "  "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {pretty(inner, deeper)}" for key, inner in value.items()]
        opening, closing = "{}"
    else:
        parts = [pretty(inner, deeper) for inner in value]
        opening, closing = "[]"
    return f"{opening}\n" + ",\n".join(deeper + part for part in parts) + f"\n{indent}{closing}"
