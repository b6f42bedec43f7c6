"""What an exported model says about itself, without loading it."""

from __future__ import annotations

import glob
import json
import os
import re
from dataclasses import dataclass
from typing import Any

from estimand.core.errors import NoModelError
from estimand.core.files import messages
from estimand.export.loaded.holding import MODEL_FILES, model_file

CARD_FILE = "model_card.json"
# Signatures that TensorFlow adds for itself: how to initialize, how to make a step.
_INTERNAL = re.compile(r"__saved_model_")
# Kinds of tensors that consist of several; a dense one has no kind.
SPARSE, RAGGED = "sparse", "ragged"


@dataclass(frozen=True)
class MetaGraph:
    """One graph of an export: which tags it has, and which signatures."""

    tags: tuple[str, ...]
    signatures: dict[str, dict[str, Any]]


def find_version(directory: str | os.PathLike[str] | bytes) -> str:
    """The directory itself if it is an export, else its newest version."""
    directory = os.fsdecode(directory)
    if model_file(directory) is not None:
        return directory
    if not os.path.isdir(directory):
        raise NoModelError(f"There is no directory {directory!r} to load a model from.")
    numbered = [name for name in os.listdir(directory) if name.isdecimal()]
    for name in sorted(numbered, key=int, reverse=True):
        path = os.path.join(directory, name)
        if model_file(path) is not None:
            return path
    below = sorted(glob.glob(os.path.join(glob.escape(directory), "export", "*", "[0-9]*")))
    if below:  # it is a model_dir
        folders = list(dict.fromkeys(os.path.dirname(path) for path in below))
        raise NoModelError(
            f"{directory!r} is no exported model, but a model_dir. Give "
            f"{' or '.join(map(repr, folders))}."
        )
    inside = sorted(os.listdir(directory))[:8]
    raise NoModelError(
        f"{directory!r} is no exported model: it has no saved_model.pb, and no version of one "
        f"(a directory named by a number). It has: {inside or 'nothing'}. Give what "
        "export_saved_model returned, or its export_dir_base."
    )


def read_meta_graphs(export: str) -> list[MetaGraph]:
    """The graphs of an export with their signatures."""
    from google.protobuf import text_format
    from google.protobuf.message import DecodeError

    message = messages.new("SavedModel")
    path = os.path.join(export, MODEL_FILES[0])
    try:
        if os.path.isfile(path):
            with open(path, "rb") as file:
                message.ParseFromString(file.read())
        else:
            path = os.path.join(export, MODEL_FILES[1])
            with open(path, encoding="utf-8") as file:
                text_format.Parse(file.read(), message)
    except (DecodeError, text_format.ParseError) as error:
        raise NoModelError(f"{path} is no SavedModel, or damaged: {error}") from error
    return [
        MetaGraph(
            tuple(graph.meta_info_def.tags),
            {
                name: describe_signature(signature)
                for name, signature in sorted(graph.signature_def.items())
                if not _INTERNAL.match(name)
            },
        )
        for graph in message.meta_graphs
    ]


def describe_signature(signature: Any) -> dict[str, Any]:
    """Method, inputs and outputs of a `SignatureDef` as plain values."""
    return {
        "method": signature.method_name,
        "inputs": {k: _describe(signature.inputs[k]) for k in sorted(signature.inputs)},
        "outputs": {k: _describe(signature.outputs[k]) for k in sorted(signature.outputs)},
    }


def read_card(export: str) -> dict[str, Any]:
    """The model card of an export; empty if it has none."""
    try:
        with open(os.path.join(export, "assets.extra", CARD_FILE), encoding="utf-8") as file:
            card = json.load(file)
    except (OSError, ValueError):
        return {}
    return card if isinstance(card, dict) else {}


def _describe(info: Any) -> dict[str, Any]:
    kind = info.WhichOneof("encoding")
    if kind == "composite_tensor":
        return _describe_composite(info.composite_tensor)
    described = {
        "dtype": messages.dtype_name(info.dtype),
        "shape": messages.sizes(info.tensor_shape),
        "tensor": info.name,
    }
    if kind == "coo_sparse":
        coo = info.coo_sparse
        parts = [coo.indices_tensor_name, coo.values_tensor_name, coo.dense_shape_tensor_name]
        described |= {"tensor": coo.values_tensor_name, "kind": SPARSE, "parts": parts}
    return described


def _describe_composite(composite: Any) -> dict[str, Any]:
    """Of a ragged tensor: its values, then the row splits of each ragged dimension."""
    spec, components = composite.type_spec, composite.components
    ragged = spec.type_spec_class == spec.RAGGED_TENSOR_SPEC
    # The first of what a ragged spec says of itself is its shape.
    fields = spec.type_state.tuple_value.values
    return {
        "dtype": messages.dtype_name(components[0].dtype),
        "shape": messages.sizes(fields[0].tensor_shape_value) if ragged and fields else None,
        "tensor": components[0].name,
        "kind": RAGGED if ragged else spec.type_spec_class_name or "composite",
        "parts": [component.name for component in components],
    }
