"""Messages of protocols that are described in Python, because no package has their classes.

>>> messages = pool("demo", {"Point": {1: Field("x", INT64), 2: Field("names", STRING, True)}})
>>> point = message_class(messages, "demo.Point")(x=3, names=["a", "b"])
>>> point.SerializeToString()
b'\\x08\\x03\\x12\\x01a\\x12\\x01b'
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_FIELD = descriptor_pb2.FieldDescriptorProto
DOUBLE, INT64, UINT64, INT32, FIXED32 = 1, 3, 4, 5, 7
BOOL, STRING, MESSAGE, BYTES, UINT32 = 8, 9, 11, 12, 13


class Field(NamedTuple):
    name: str
    kind: int
    is_repeated: bool = False
    message: str | None = None  # its full name, if it is one, with a dot before it


def pool(
    package: str,
    messages: Mapping[str, Mapping[int, Field]],
    dependencies: Iterable[Any] = (),
    into: descriptor_pool.DescriptorPool | None = None,
) -> descriptor_pool.DescriptorPool:
    """The messages by name, their fields by number. `dependencies` are descriptors of files whose
    messages are fields; a pool that is given knows them already."""
    file = descriptor_pb2.FileDescriptorProto(
        name=f"{package.replace('.', '/')}.proto",
        package=package,
        syntax="proto3",
        dependency=[file.name for file in dependencies],
    )
    for message, fields in messages.items():
        made = file.message_type.add(name=message)
        for number, field in fields.items():
            made.field.add(
                name=field.name,
                number=number,
                type=field.kind,
                type_name=field.message,
                label=_FIELD.LABEL_REPEATED if field.is_repeated else _FIELD.LABEL_OPTIONAL,
            )
    pool = into
    if pool is None:
        pool = descriptor_pool.DescriptorPool()
        for field in dependencies:
            pool.AddSerializedFile(field.serialized_pb)
    pool.AddSerializedFile(file.SerializeToString())
    return pool


def message_class(pool: descriptor_pool.DescriptorPool, name: str) -> Any:
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
