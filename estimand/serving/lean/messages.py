"""gRPC's rules for what HTTP/2 carries: message prefix, compression, time-outs, error texts."""

from __future__ import annotations

import gzip
import zlib

from estimand.serving import inflating
from estimand.serving.lean.frames import pack_u32, read_u32
from estimand.serving.status import StatusError

PREFIX_SIZE = 5
ENCODINGS = (b"identity", b"deflate", b"gzip")

_SECONDS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_PLAIN = frozenset(range(0x20, 0x7F)) - {ord("%")}
_COMPRESSIONS = {b"gzip": inflating.GZIP, b"deflate": inflating.DEFLATE}


def seconds_of(timeout: bytes) -> float:
    """What `grpc-timeout` says.

    >>> seconds_of(b"250m")
    0.25
    """
    digits, unit = timeout[:-1], timeout[-1:]
    if not digits.isdigit() or len(digits) > 8 or unit not in _SECONDS:
        raise ValueError(f"bad grpc-timeout: {timeout!r}")
    return int(digits) * _SECONDS[unit]


def percent_encoded(text: str) -> bytes:
    """A text as it stands in `grpc-message`.

    >>> percent_encoded("50 % ü")
    b'50 %25 %C3%BC'
    """
    raw = text.encode("utf-8", "replace")
    if all(byte in _PLAIN for byte in raw):
        return raw
    return b"".join(b"%c" % byte if byte in _PLAIN else b"%%%02X" % byte for byte in raw)


def prefixed(message: bytes, compressed: bool = False) -> bytes:
    """
    >>> prefixed(b"abc")
    b'\\x00\\x00\\x00\\x00\\x03abc'
    """
    if compressed:
        message = gzip.compress(message, compresslevel=1, mtime=0)
    return bytes((compressed,)) + pack_u32(len(message)) + message


def too_large(size: int, limit: int) -> StatusError:
    return StatusError.of(
        "RESOURCE_EXHAUSTED", f"SERVER: Received message larger than max ({size} vs. {limit})"
    )


def size_of(start: bytes | bytearray, limit: int) -> int:
    """How long the whole message is with its prefix, told by its first five bytes."""
    size: int = read_u32(start, 1)[0]
    if size > limit:
        raise too_large(size, limit)
    return PREFIX_SIZE + size


def not_one(message: bytes | bytearray) -> StatusError:
    """Of a request that is not the one message that its prefix announces."""
    if len(message) < PREFIX_SIZE + read_u32(message, 1)[0]:
        return StatusError.of("INTERNAL", "The request ends in the middle of its message.")
    return StatusError.of("INTERNAL", "The request has more than the one message it may have.")


def is_compressed(flags: int, encoding: bytes) -> bool:
    if flags != 1:
        raise StatusError.of("INTERNAL", f"Unknown flags {flags} of a message.")
    if encoding not in _COMPRESSIONS:
        raise StatusError.of("INTERNAL", "A message is compressed, but grpc-encoding names no way.")
    return True


def inflated(body: bytes, encoding: bytes, limit: int) -> bytes:
    """The message itself; the limit holds for it too.

    >>> inflated(gzip.compress(b"abc"), b"gzip", 100)
    b'abc'
    """
    try:
        return inflating.inflated(
            body, _COMPRESSIONS[encoding], limit, lambda size: too_large(size, limit)
        )
    except zlib.error as error:
        text = f"A message cannot be decompressed as {encoding.decode()}: {error}"
        raise StatusError.of("INTERNAL", text) from error
