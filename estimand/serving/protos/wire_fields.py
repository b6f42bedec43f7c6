"""How many fields a protobuf message has, before it is parsed.

A field of two bytes becomes an object of fifty, and parsing holds Python's lock to the end. So what
a large message may become is bounded by a walk over its bytes, which can be interrupted.

>>> from google.protobuf.struct_pb2 import ListValue
>>> message = ListValue()
>>> message.extend([1.0, 2.0, 3.0])
>>> count = FieldCount(ListValue.DESCRIPTOR, message.SerializeToString())
>>> count.goes_on_to(5), count.goes_on_to(100), count.fields
(False, True, 6)
"""

from __future__ import annotations

import functools
from typing import Any

from estimand.core.files import varints

MAX_FIELDS = 2**20  # that a message may have; parsing so many takes a tenth of a second
LARGE_MESSAGE = 131_072  # bytes: a smaller one is parsed as it is
FIRST_FIELDS = 2000  # that are counted without a thread

Table = dict[int, Any]  # of a message: by field number, the tables of those that are messages


@functools.cache
def _table(descriptor: Any) -> Table:
    table: Table = {}
    for field in descriptor.fields:
        if field.message_type is not None:
            table[field.number] = field.message_type
    return table


class FieldCount:
    def __init__(self, descriptor: Any, body: bytes) -> None:
        self._body = body
        self._open: list[tuple[Table, int, int]] = [(_table(descriptor), 0, len(body))]
        self.fields = 0

    def goes_on_to(self, most: int) -> bool:
        """Whether the message ends within so many fields. What is no message ends where it ceases
        to be one: the parser will say so."""
        try:
            return self._walk(most)
        except IndexError:
            return True

    def _walk(self, most: int) -> bool:
        body, todo, count = self._body, self._open, self.fields
        while todo:
            table, at, end = todo.pop()
            while at < end:
                if count >= most:
                    todo.append((table, at, end))
                    self.fields = count
                    return False
                count += 1
                tag = body[at]
                at += 1
                if tag >= 0x80:
                    tag, at = varints.decode(body, at - 1)
                kind = tag & 7
                if kind == 2:
                    size = body[at]
                    at += 1
                    if size >= 0x80:
                        size, at = varints.decode(body, at - 1)
                    inside = table.get(tag >> 3)
                    if inside is not None and at + size <= end:
                        todo.append((table, at + size, end))
                        table, end = _table(inside), at + size
                    else:
                        at += size
                elif kind == 0:
                    while body[at] >= 0x80:
                        at += 1
                    at += 1
                elif kind in (1, 5):
                    at += 8 if kind == 1 else 4
                elif kind > 5:
                    return True
        self.fields = count
        return True
