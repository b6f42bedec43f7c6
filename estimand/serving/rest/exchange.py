"""One request and its answer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import httptools

from estimand.serving.access.request_memory import ConnectionShare
from estimand.serving.rest.body import Arrival
from estimand.serving.rest.heads import HTML, JSON, Heads, error_body, lines
from estimand.serving.status import StatusError

_LARGE = 65_536  # bytes; to copy them would cost more than a second write
# After these the rest of the body is not read.
_LAST = frozenset((401, 408, 413, 429))


class HasHeads(Protocol):
    @property
    def heads(self) -> Heads: ...


class Answering(Protocol):
    """The connection that a request came by, and its answer goes by."""

    ends: bool
    write: Callable[[bytes], Any]
    transport_is_closing: Callable[[], bool]

    @property
    def share(self) -> ConnectionShare: ...

    @property
    def shared(self) -> HasHeads: ...

    def is_answered(self, exchange: Exchange) -> None: ...


class AwaitsBody(Protocol):
    """A prediction whose request has no more than its head yet."""

    arrival: Arrival | None

    @property
    def most_bytes(self) -> int: ...

    @property
    def deadline(self) -> float: ...

    def run(self, body: bytes | bytearray, at_once: bool) -> None: ...

    def refuse(self, error: Exception) -> None: ...


class KnownHead:
    """The first line and the headers of a request, by their bytes: clients that ask again and again
    send the same ones.

    `asks`: what whoever answers has found in it, for requests of the same head.
    """

    __slots__ = ("asks", "content", "headers", "method", "size", "target")

    def __init__(self, content: bytes, size: int, of: Exchange) -> None:
        """`size` is that of the request, with its body."""
        self.content = content
        self.size = size
        self.method, self.target, self.headers = of.method, of.target, of.headers
        self.asks: Any = None


class Exchange:
    """Its head is there; of its body, as much as has come. As a reply it is told the answer."""

    # Most requests change none of these.
    body: bytes | bytearray = b""
    parts = 0
    is_whole = False
    prediction: AwaitsBody | None = None  # that waits for the body
    refusal: tuple[int, bytes, bytes] | None = None  # of what is no request
    more = b""  # headers of the answer, whatever it is
    answered = False
    hears_go_on = True  # HTTP/1.0 does not know of it
    known: KnownHead | None = None  # if the request before it had the same

    def __init__(
        self,
        connection: Answering,
        method: bytes,
        target: bytes,
        headers: list[tuple[bytes, bytes]],
        keep_alive: bool,
        began: float,
    ) -> None:
        self._connection = connection
        self.method = method
        self.target = target
        self.headers = headers
        self.keep_alive = keep_alive
        self.began = began  # its first byte

    def path_and_query(self) -> tuple[bytes, bytes]:
        """Also of a target that names the server, as proxies are sent."""
        target = self.target
        if not target.isascii():
            raise httptools.HttpParserInvalidURLError
        if target[:1] == b"/" and b"#" not in target:
            path, _, query = target.partition(b"?")
            return path, query
        if target == b"*":
            return target, b""
        url = httptools.parse_url(target)  # raises what the parser raises
        return url.path or b"", url.query or b""

    def header(self, wanted: bytes) -> bytes | None:
        """The first of this name, which is in lower case."""
        for name, value in self.headers:
            if name == wanted:
                return value
        return None

    def add(self, part: bytes) -> None:
        """To a body that has begun. Parts can be as small as a byte, so they are joined as they
        come."""
        self.parts += 1
        if self.parts == 2:
            self.body = bytearray(self.body)
        assert isinstance(self.body, bytearray)
        self.body += part

    def go_on(self) -> None:
        """To a client that asks before it sends the body."""
        if self.hears_go_on:
            self._connection.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    # ------------------------------------------------------------ as a reply

    @property
    def gone(self) -> bool:
        connection = self._connection
        return connection.ends or connection.transport_is_closing()

    @property
    def client(self) -> Any:
        return self._connection.share

    def succeed(self, body: bytes) -> None:
        self.answer(200, body)

    def fail(self, error: StatusError) -> None:
        self.answer(error.http, error_body(error.text), more=retry_after(error))

    def answer(self, http: int, body: bytes, kind: bytes = JSON, more: bytes = b"") -> None:
        if self.answered:
            return
        self.answered = True
        connection = self._connection
        if connection.ends or connection.transport_is_closing():
            return
        if http in _LAST:
            self.keep_alive = False
        end = b"" if self.keep_alive else b"\r\nconnection: close"
        start = connection.shared.heads.head(http, kind)
        head = b"%b%d%b%b%b\r\n\r\n" % (start, len(body), more, self.more, end)
        if self.method == b"HEAD":
            connection.write(head)
        elif len(body) < _LARGE:
            connection.write(head + body)
        else:
            connection.write(head)
            connection.write(body)
        connection.is_answered(self)


NOT_FOUND = b"<HTML><HEAD><TITLE>404 Not Found</TITLE></HEAD><BODY><H1>Not Found</H1></BODY></HTML>"


def answer_not_found(exchange: Exchange) -> None:
    exchange.answer(404, NOT_FOUND, HTML)


def retry_after(error: StatusError) -> bytes:
    """A header, after those before it: whole seconds are all that HTTP knows."""
    if error.retry_after is None:
        return b""
    return lines([(b"retry-after", b"%d" % math.ceil(error.retry_after))])
