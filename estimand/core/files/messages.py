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
from typing import Any

from google.protobuf import descriptor_pool

from estimand.core.files import described
from estimand.core.files.described import DOUBLE, FIXED32, INT32, INT64, MESSAGE, STRING, Field

_PACKAGE = "estimand.files"
_SHAPE, _META_GRAPH = ".tensorboard.TensorShapeProto", ".tensorboard.MetaGraphDef"


_MESSAGES = {
    "CheckpointState": {
        1: Field("model_checkpoint_path", STRING),
        2: Field("all_model_checkpoint_paths", STRING, True),
        3: Field("all_model_checkpoint_timestamps", DOUBLE, True),
        4: Field("last_preserved_timestamp", DOUBLE),
    },
    "SavedModel": {
        1: Field("saved_model_schema_version", INT64),
        2: Field("meta_graphs", MESSAGE, True, _META_GRAPH),
    },
    "BundleHeader": {1: Field("num_shards", INT32), 2: Field("endianness", INT32)},
    "BundleEntry": {
        1: Field("dtype", INT32),
        2: Field("shape", MESSAGE, message=_SHAPE),
        3: Field("shard_id", INT32),
        4: Field("offset", INT64),
        5: Field("size", INT64),
        6: Field("crc32c", FIXED32),
    },
}
# Whose name in TensorFlow is not that of the enumeration in small letters.
_DTYPES = {"float": "float32", "double": "float64", "half": "float16"}


def new(name: str) -> Any:
    """An empty message of this name."""
    return described.message_class(_pool(), f"{_PACKAGE}.{name}")()


def signature_def() -> Any:
    """An empty SignatureDef."""
    from tensorboard.compat.proto import meta_graph_pb2

    return meta_graph_pb2.SignatureDef()


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

    needed = (meta_graph_pb2.DESCRIPTOR, tensor_shape_pb2.DESCRIPTOR)
    return described.pool(_PACKAGE, _MESSAGES, needed, into=descriptor_pool.Default())
