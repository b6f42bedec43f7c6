"""TensorFlow's messages for files on disk, without TensorFlow: it takes seconds to import.

Most of them come with TensorBoard, under its own package. What it leaves out is described here,
with TensorFlow's field names and numbers.

>>> state = new("CheckpointState")
>>> state.model_checkpoint_path = "model.ckpt-7"
>>> print(state, end="")
model_checkpoint_path: "model.ckpt-7"
"""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
_PACKAGE = "estimand.files"
_SHAPE, _META_GRAPH = ".tensorboard.TensorShapeProto", ".tensorboard.MetaGraphDef"
_DOUBLE, _INT64, _INT32, _FIXED32, _STRING, _MESSAGE = 1, 3, 5, 7, 9, 11


class _Field(NamedTuple):
    name: str
    kind: int
    is_repeated: bool = False
    message: str | None = None


_MESSAGES = {
    "CheckpointState": {
        1: _Field("model_checkpoint_path", _STRING),
        2: _Field("all_model_checkpoint_paths", _STRING, True),
        3: _Field("all_model_checkpoint_timestamps", _DOUBLE, True),
        4: _Field("last_preserved_timestamp", _DOUBLE),
    },
    "SavedModel": {
        1: _Field("saved_model_schema_version", _INT64),
        2: _Field("meta_graphs", _MESSAGE, True, _META_GRAPH),
    },
    "BundleHeader": {1: _Field("num_shards", _INT32), 2: _Field("endianness", _INT32)},
    "BundleEntry": {
        1: _Field("dtype", _INT32),
        2: _Field("shape", _MESSAGE, message=_SHAPE),
        3: _Field("shard_id", _INT32),
        4: _Field("offset", _INT64),
        5: _Field("size", _INT64),
        6: _Field("crc32c", _FIXED32),
    },
}
# Whose name in TensorFlow is not that of the enumeration in small letters.
_DTYPES = {"float": "float32", "double": "float64", "half": "float16"}


def new(name: str) -> Any:
    """An empty message of this name."""
    described = _pool().FindMessageTypeByName(f"{_PACKAGE}.{name}")
    return message_factory.GetMessageClass(described)()


def dtype_name(number: int) -> str:
    """What TensorFlow calls a type, by its number in messages.

    >>> dtype_name(1), dtype_name(7), dtype_name(101), dtype_name(9999)
    ('float32', 'string', 'float32_ref', 'unknown type 9999')
    """
    from tensorboard.compat.proto import types_pb2

    try:
        name = types_pb2.DataType.Name(number).removeprefix("DT_").lower()
    except ValueError:
        return f"unknown type {number}"
    kind, reference, _ = name.partition("_ref")
    return _DTYPES.get(kind, kind) + reference


def sizes(shape: Any) -> list[int | None] | None:
    """A `TensorShapeProto` as a list; None for an unknown size, or instead of the list."""
    if shape.unknown_rank:
        return None
    return [size.size if size.size >= 0 else None for size in shape.dim]


@functools.cache
def _pool() -> descriptor_pool.DescriptorPool:
    # Importing it registers what the fields refer to.
    from tensorboard.compat.proto import meta_graph_pb2, tensor_shape_pb2

    file = descriptor_pb2.FileDescriptorProto(
        name="estimand/core/files.proto",
        package=_PACKAGE,
        syntax="proto3",
        dependency=[meta_graph_pb2.DESCRIPTOR.name, tensor_shape_pb2.DESCRIPTOR.name],
    )
    for message, fields in _MESSAGES.items():
        described = file.message_type.add(name=message)
        for number, one in fields.items():
            described.field.add(
                name=one.name,
                number=number,
                type=one.kind,
                label=_FIELD.LABEL_REPEATED if one.is_repeated else _FIELD.LABEL_OPTIONAL,
                type_name=one.message,
            )
    pool = descriptor_pool.Default()
    pool.AddSerializedFile(file.SerializeToString())
    return pool
