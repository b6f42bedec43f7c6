"""SignatureDefs in the metadata of a TFLite file, where TensorFlow Serving looks for them.

A TFLite file is a FlatBuffer. Of its schema only this path is needed: Model.metadata[i] names a
buffer, whose data is a FlexBuffer map of names and serialized SignatureDefs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import flatbuffers
import tensorflow as tf
from flatbuffers import flexbuffers
from google.protobuf.message import DecodeError

from estimand.serving.status import invalid

NAME = "signature_defs_metadata"
_MODEL_BUFFERS, _MODEL_METADATA = 4, 6  # numbers of fields
_METADATA_NAME, _METADATA_BUFFER = 0, 1
_BUFFER_DATA = 0


def signature_defs(model: bytes) -> dict[str, Any]:
    """By name; none is usual. Of a file that no interpreter reads, nothing is asked here."""
    try:
        data = _signature_data(model)
        return {} if data is None else _from_map(data)
    except (struct.error, IndexError, ValueError, TypeError, DecodeError) as error:
        raise invalid(f"Invalid SignatureDefs found in TfLite model: {error}") from error


def _from_map(data: bytes) -> dict[str, Any]:
    definitions = flexbuffers.GetRoot(data).AsMap
    kind = type(tf.compat.v1.saved_model.build_signature_def())
    return {
        key.AsKey: kind.FromString(value.AsBlob if value.IsBlob else value.AsStringBytes)
        for key, value in zip(definitions.Keys, definitions.Values, strict=True)
    }


def _signature_data(model: bytes) -> bytes | None:
    root = flatbuffers.table.Table(model, struct.unpack_from("<I", model)[0])
    buffers = _tables(root, _MODEL_BUFFERS)
    for metadata in _tables(root, _MODEL_METADATA):
        place = _field(metadata, _METADATA_NAME)
        if place and metadata.String(place) == NAME.encode():
            at = _field(metadata, _METADATA_BUFFER)
            number = metadata.Get(flatbuffers.number_types.Uint32Flags, at) if at else 0
            return _bytes(buffers[number], _BUFFER_DATA)
    return None


def _field(table: Any, number: int) -> int:
    """Where it begins; 0 if it is not there."""
    offset = table.Offset(4 + 2 * number)
    return int(table.Pos + offset) if offset else 0


def _tables(table: Any, number: int) -> list[Any]:
    offset = table.Offset(4 + 2 * number)
    if not offset:
        return []
    start = table.Vector(offset)
    places = range(start, start + 4 * table.VectorLen(offset), 4)
    make: Callable[[Any, int], Any] = flatbuffers.table.Table
    return [make(table.Bytes, table.Indirect(place)) for place in places]


def _bytes(table: Any, number: int) -> bytes:
    offset = table.Offset(4 + 2 * number)
    if not offset:
        raise ValueError("their buffer is empty")
    start = table.Vector(offset)
    return bytes(table.Bytes[start : start + table.VectorLen(offset)])
