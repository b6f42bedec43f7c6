"""`tools.checkpoint_converter`: canned models of TensorFlow 1, with the names of TensorFlow 2."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from google.protobuf import text_format

from estimand.canned import name_conversion
from estimand.core.errors import ConfigError
from estimand.engine.checkpoints.contents import CheckpointContents
from estimand.engine.checkpoints.publishing import Entry, write_bundle

_TYPES = ("dnn", "linear", "combined")


def convert_checkpoint(
    estimator_type: str, source_checkpoint: str, source_graph: str | None, target_checkpoint: str
) -> None:
    """Write a checkpoint of `tf.compat.v1.estimator` with the names of `tf.estimator`.

    Learning rates, which it does not hold, are read from `source_graph`, its `graph.pbtxt`.
    `estimand checkpoint convert` does the same, and back.
    """
    if estimator_type not in _TYPES:
        raise ConfigError(f"estimator_type must be one of {_TYPES}, given: {estimator_type!r}.")
    contents = CheckpointContents(source_checkpoint)
    values = {tensor.name: contents.value(tensor.name) for tensor in contents.tensors}
    rates = _learning_rates(source_graph)
    linear = rates.get("linear", rates.get("")) if estimator_type != "dnn" else None
    deep = rates.get("dnn", rates.get(""))
    first = linear if estimator_type == "linear" else deep
    momentum = 0.9 if any(name.endswith("/Momentum") for name in values) else None
    converted = name_conversion.to_v2(values, first, linear, momentum)
    entries = [Entry(name, tf.constant(value)) for name, value in converted.items()]
    write_bundle(target_checkpoint, entries)


def _learning_rates(graph_file: str | None) -> dict[str, float]:
    """By the part of the model ("" if that is not told) what the graph has as constants."""
    if not graph_file:
        return {}
    with tf.io.gfile.GFile(graph_file) as file:
        graph = text_format.Parse(file.read(), tf.compat.v1.GraphDef())
    values_by_name: dict[str, float] = {}
    for node in graph.node:
        if node.op == "Const" and node.name.endswith("/learning_rate"):
            part = next((p for p in ("dnn", "linear") if node.name.startswith(f"{p}/")), "")
            values_by_name[part] = float(_value(node))
    return values_by_name


def _value(node: Any) -> Any:
    return tf.make_ndarray(node.attr["value"].tensor)
