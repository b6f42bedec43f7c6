"""Compressed bytes, within a bound."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

GZIP, DEFLATE = 31, 15  # how zlib is told of them
_AT_A_TIME = 2**20


def inflated(body: Any, kind: int, most: int, too_large: Callable[[int], Exception]) -> bytes:
    """By pieces: what a few bytes blow up to must not be there before it is counted.

    `too_large` makes the error, of the size so far. zlib.error says that it is no such data.

    >>> inflated(zlib.compress(b"abc", wbits=GZIP), GZIP, 100, ValueError)
    b'abc'
    >>> inflated(zlib.compress(b"abc"), DEFLATE, 2, ValueError)
    Traceback (most recent call last):
        ...
    ValueError: 3
    """
    machine = zlib.decompressobj(kind)
    parts: list[bytes] = []
    size = 0
    while not machine.eof:
        part = machine.decompress(body, _AT_A_TIME)
        body = machine.unconsumed_tail
        size += len(part)
        if size > most:
            raise too_large(size)
        if not part and not body:
            raise zlib.error("it ends too early")
        parts.append(part)
    return b"".join(parts)
