"""JSON objects to tf.Examples, and the answers of classify and regress to JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow_serving.apis import input_pb2

from estimand.serving.json.output import dump
from estimand.serving.json.values import decode_base64, is_base64, json_type, show
from estimand.serving.status import invalid

_KINDS = {"int64_list": "int64", "float_list": "float", "bytes_list": "bytes"}


def input_of(document: Mapping[str, Any]) -> Any:
    """The Input message of a classify or regress body."""
    given = input_pb2.Input()
    examples = document.get("examples")
    if "examples" not in document:
        raise invalid(
            f"JSON Value: {show(document)} When method is classify, key 'examples' is expected "
            "and was not found"
        )
    if not isinstance(examples, list):
        raise invalid(
            f"JSON Value: {show(document)} Expecting 'examples' value to be an list/array"
        )
    if not examples:
        raise invalid(f"JSON Value: {show(document)} 'examples' value is an empty array")
    target = given.example_list
    if "context" in document:
        target = given.example_list_with_context
        target.context.CopyFrom(_example(document["context"]))
    target.examples.extend(_example(example) for example in examples)
    return given


def _example(value: Any) -> tf.train.Example:
    if not isinstance(value, dict):
        raise invalid(f"Example must be JSON object but got JSON {json_type(value)}")
    example = tf.train.Example()
    for name, content in value.items():
        feature = example.features.feature[name]
        for item in content if isinstance(content, list) else [content]:
            _add(item, name, feature)
    return example


def _add(value: Any, name: str, feature: Any) -> None:
    field, content = _feature_value(value, name)
    already = feature.WhichOneof("kind")
    if already not in (None, field):
        raise invalid(
            f"Unexpected element type in feature: {name} expecting type: {_KINDS[already]}"
        )
    getattr(feature, field).value.append(content)


def _feature_value(value: Any, name: str) -> tuple[str, Any]:
    if isinstance(value, str):
        return "bytes_list", value.encode("utf-8", "surrogatepass")
    if is_base64(value):
        return "bytes_list", decode_base64(value)
    if isinstance(value, bool):
        return "int64_list", int(value)
    if isinstance(value, float):
        if np.isfinite(value) and abs(value) > np.finfo(np.float32).max:
            raise invalid(
                f"Cannot convert JSON value: {show(value)} to float without loss of precision."
            )
        return "float_list", value
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise invalid(f"Feature: {name} has uint64 element. Only int64 is supported.")
        return "int64_list", value
    raise invalid(f"Feature: {name} has element with unexpected JSON type: {json_type(value)}")


def classification_json(result: Any) -> bytes:
    rows = [
        [[scored.label, np.float32(scored.score)] for scored in row.classes]
        for row in result.classifications
    ]
    return dump("results", rows)


def regression_json(result: Any) -> bytes:
    return dump("results", [np.float32(regression.value) for regression in result.regressions])
