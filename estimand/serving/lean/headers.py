"""Header blocks: read with the `hpack` package, written as constants.

Clients send the same block again and again, made of indices into the table that HPACK keeps on
both sides. A block that was read once, and changed nothing in that table, means the same until
another block changes it: then it is known by its bytes.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import hpack
from hpack.table import HeaderTable

from estimand.core.files import varints
from estimand.serving.lean.frames import Code, ConnectionFault, StreamFault
from estimand.serving.lean.messages import ENCODINGS, percent_encoded, seconds_of
from estimand.serving.status import StatusError

Header = tuple[bytes, bytes]
Metadata = Sequence[tuple[str, str | bytes]]

_KNOWN_BLOCKS = 64
_KNOWN_BYTES = 65_536  # of all known blocks of a connection, and what they mean
_FREE_WORK = 4096  # that reading a block may be; a byte is one, a header sixteen
_OVERHEAD = 32  # of each header, as HTTP/2 counts their size
_PSEUDO = frozenset((b":method", b":scheme", b":path", b":authority"))
_REQUIRED = (b":method", b":scheme", b":path")
_OF_THE_CONNECTION = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade")
)
_NOT_METADATA = frozenset((b"te", b"content-type", b"grpc-encoding", b"grpc-accept-encoding"))
_NAME = re.compile(rb":?[-!#$%&'*+.^_`|~0-9a-z]+").fullmatch
_BAD_IN_VALUE = re.compile(rb"[\0\r\n]").search


# ---------------------------------------------------------------- writing


def literal(name: bytes, value: bytes) -> bytes:
    """A header that leaves the table alone.

    >>> literal(b"a", b"b")
    b'\\x00\\x01a\\x01b'
    """
    return b"\0" + _length(len(name)) + name + _length(len(value)) + value


def _length(size: int) -> bytes:
    if size < 127:
        return bytes((size,))
    return b"\x7f" + varints.encode(size - 127)


SMALLER_TABLE = b"\x20"  # our own table has no entries; a peer that shrinks it is told so
HEAD = b"\x88" + literal(b"content-type", b"application/grpc")  # :status 200
HEAD_GZIP = HEAD + literal(b"grpc-encoding", b"gzip")
OK_TRAILERS = literal(b"grpc-status", b"0")
_ACCEPTED = literal(b"grpc-accept-encoding", b",".join(ENCODINGS))


PUSHBACK = b"grpc-retry-pushback-ms"  # which clients with a retry policy heed


def trailers(error: StatusError) -> bytes:
    block = literal(b"grpc-status", str(error.code).encode())
    if error.text:
        block += literal(b"grpc-message", percent_encoded(error.text))
    if error.retry_after is not None:
        block += literal(PUSHBACK, b"%d" % (1000 * error.retry_after))
    return block


def http_status(status: int) -> bytes:
    """For those who do not speak gRPC."""
    return b"\x08" + _length(3) + str(status).encode()


# ---------------------------------------------------------------- reading


class RequestHead:
    """What the headers of a request say."""

    __slots__ = ("allowed_by", "encoding", "gzip", "headers", "method", "refusal", "timeout")

    def __init__(self, headers: Sequence[Header]) -> None:
        self.headers = headers
        self.method: Any = None
        self.timeout: float | None = None
        self.encoding = b"identity"
        self.gzip = False
        self.allowed_by: object = None  # what said that it may ask
        self.refusal: bytes | None = None  # the whole header block of the answer

    def metadata(self) -> Metadata:
        """What the client added: an API key, for example.

        >>> RequestHead([(b":path", b"/"), (b"te", b"trailers"), (b"x-api-key", b"abc")]).metadata()
        [('x-api-key', 'abc')]
        """
        return [
            (name.decode(), _binary(value) if name.endswith(b"-bin") else value.decode("latin-1"))
            for name, value in self.headers
            if name[:1] != b":" and name not in _NOT_METADATA
        ]


def _binary(value: bytes) -> bytes:
    try:
        return base64.b64decode(value + b"=" * (-len(value) % 4))
    except binascii.Error:
        return value


class _Table(HeaderTable):
    changes = 0

    def add(self, name: bytes, value: bytes) -> None:
        self.changes += 1
        super().add(name, value)


class HeaderReader:
    """The reading side of one connection. `charge` is told of blocks that cost much to read."""

    def __init__(
        self,
        judge: Callable[[Sequence[Header]], RequestHead],
        most_bytes: int,
        charge: Callable[[int], None],
    ) -> None:
        # Above what a request may have, so that it can be refused and the connection kept.
        self._decoder = hpack.Decoder(max_header_list_size=4 * most_bytes)
        self._table = self._decoder.header_table = _Table()
        self._judge = judge
        self._charge = charge
        self._known_bytes = 0
        self.known: dict[bytes, RequestHead] = {}

    def read(self, block: bytes) -> RequestHead:
        changes = self._table.changes
        headers = self.decode(block)
        head = self._judge(headers)
        if self._table.changes == changes:
            self._know(block, head)
        return head

    def _know(self, block: bytes, head: RequestHead) -> None:
        size = len(block) + size_of(head.headers)
        if len(self.known) >= _KNOWN_BLOCKS or self._known_bytes + size > _KNOWN_BYTES:
            self._forget()
        if size <= _KNOWN_BYTES:
            self._known_bytes += size
            self.known[block] = head

    def _forget(self) -> None:
        self.known.clear()
        self._known_bytes = 0

    def decode(self, block: bytes) -> Sequence[Header]:
        """Also for blocks that nobody wants: the next ones build on them."""
        changes = self._table.changes
        if block and block[0] & 0xE0 == 0x20:  # sets the table's size
            self._table.changes += 1
        try:
            decoded = self._decoder.decode(block, raw=True)
        except hpack.OversizedHeaderListError as error:
            raise ConnectionFault(Code.ENHANCE_YOUR_CALM, str(error)) from error
        except hpack.HPACKError as error:
            raise ConnectionFault(Code.COMPRESSION_ERROR, str(error)) from error
        headers: list[Any] = [(header[0], header[1]) for header in decoded]
        if not headers:
            raise ConnectionFault(Code.COMPRESSION_ERROR, "headers without a header")
        if self._table.changes != changes:
            self._forget()
        work = len(block) + 16 * len(headers)
        if work > _FREE_WORK:
            self._charge(work // 256)
        return headers


def size_of(headers: Iterable[Header]) -> int:
    """As HTTP/2 counts it."""
    return sum(len(name) + len(value) + _OVERHEAD for name, value in headers)


def judge(headers: Sequence[Header], table: Mapping[bytes, object], most_bytes: int) -> RequestHead:
    """What to do with a request with these headers."""
    by_name = _well_formed(headers)
    head = RequestHead(headers)
    size = size_of(headers)
    if size > most_bytes:
        text = f"received metadata size exceeds limit ({size} vs. {most_bytes})"
        return _refused(head, "RESOURCE_EXHAUSTED", text)
    if by_name[b":method"] != b"POST":
        head.refusal = http_status(405)
        return head
    kind = by_name.get(b"content-type", b"")
    if not kind.startswith(b"application/grpc") or kind[16:17] not in (b"", b"+", b";"):
        head.refusal = http_status(415)
        return head
    if by_name.get(b"te") != b"trailers":
        return _refused(head, "INTERNAL", "Missing header te: trailers")
    head.method = table.get(by_name[b":path"])
    if head.method is None:
        return _refused(head, "UNIMPLEMENTED", "Method not found!")
    return _with_grpc_headers(head, by_name)


def _with_grpc_headers(head: RequestHead, by_name: Mapping[bytes, bytes]) -> RequestHead:
    head.encoding = by_name.get(b"grpc-encoding", b"identity")
    if head.encoding not in ENCODINGS:
        name = head.encoding.decode("latin-1")
        text = f"Compression algorithm '{name}' is unknown; use gzip, deflate or identity."
        _refused(head, "UNIMPLEMENTED", text)
        assert head.refusal is not None
        head.refusal += _ACCEPTED
        return head
    accepted = by_name.get(b"grpc-accept-encoding", b"").split(b",")
    head.gzip = b"gzip" in (name.strip() for name in accepted)
    if b"grpc-timeout" in by_name:
        try:
            head.timeout = seconds_of(by_name[b"grpc-timeout"])
        except ValueError as error:
            return _refused(head, "INTERNAL", str(error))
    return head


def _refused(head: RequestHead, code: str, text: str) -> RequestHead:
    head.refusal = HEAD + trailers(StatusError.of(code, text))
    return head


def _well_formed(headers: Iterable[Header]) -> dict[bytes, bytes]:
    """The headers by name, if they are what HTTP/2 allows (RFC 9113, 8.2 and 8.3)."""
    by_name: dict[bytes, bytes] = {}
    regular = False
    for name, value in headers:
        if not _NAME(name) or _BAD_IN_VALUE(value) or name in _OF_THE_CONNECTION:
            raise StreamFault(Code.PROTOCOL_ERROR, f"bad header {name!r}")
        if name[0] == 0x3A:  # a colon
            if regular or name not in _PSEUDO or name in by_name:
                raise StreamFault(Code.PROTOCOL_ERROR, f"misplaced or unknown {name!r}")
        else:
            regular = True
        by_name[name] = value
    if any(name not in by_name for name in _REQUIRED):
        raise StreamFault(Code.PROTOCOL_ERROR, "a pseudo-header is missing")
    return by_name
