"""What comes on a connection, read as requests: their heads, within limits, and their bodies."""

from __future__ import annotations

from typing import Any, Protocol

import httptools

from estimand.serving.rest import body as bodies
from estimand.serving.rest.exchange import Answering, Exchange, KnownHead
from estimand.serving.rest.heads import error_body, without_upgrade
from estimand.serving.rest.shared import Shared
from estimand.serving.status import StatusError

_MOST_HEADERS = 256
# Bytes beside a body: sizes and extensions of chunks, trailers. Chunks may have a quarter more.
_MOST_BESIDE_BODY = 65_536
_MOST_KNOWN_BYTES = 4096  # of a head that is kept
INVALID = 400, b"Invalid HTTP request received.", b"text/plain; charset=utf-8"


class Listening(Answering, Protocol):
    """The connection whose requests are read."""

    current: Exchange | None
    idle_since: float | None

    @property
    def shared(self) -> Shared: ...

    @property
    def is_closing(self) -> bool: ...

    def take(self, exchange: Exchange) -> None: ...

    def is_whole(self, exchange: Exchange) -> None: ...

    def refuse(self, http: int, body: bytes, kind: bytes = ...) -> None: ...

    def refuse_body(self, error: StatusError) -> None: ...


class RequestReader:
    """Of one connection, which is told of each request when its head is there."""

    def __init__(self, connection: Listening) -> None:
        self._connection = connection
        self._limits = connection.shared.limits
        self._loop = connection.shared.loop
        self._most_body_bytes = self._limits.body_bytes
        self._parser = _parser(self)
        self.is_deaf = False  # what comes is no request any more
        self.waiting_since: float | None = self._loop.time()  # for a head
        self.began = 0.0  # the request that is read
        self.exchange: Exchange | None = None  # its head is there, its body is not yet
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_bytes = 0  # that have come, at least
        self._at_most = 0  # and at most
        self._feeding = 0  # bytes that are parsed now
        self._ended_in_feed = False  # the request before
        self._ended: list[Exchange] = []  # all of them, while bytes are fed
        self._known: KnownHead | None = None
        self._is_upgrading = False  # it asks for another protocol
        self._body_bytes = self._beside_body = 0
        self._speaks_1_1 = False

    def feed_known(self, data: bytes) -> bool:
        """Whether it is a request whose head has the bytes of the last one's; then it is taken."""
        known = self._known
        if known is None or len(data) != known.size or not data.startswith(known.content):
            return False
        if self._is_midway:
            return False
        connection, self.began = self._connection, self._loop.time()
        exchange = Exchange(connection, known.method, known.target, known.headers, True, self.began)
        exchange.known = known
        exchange.body = data[len(known.content) :]
        exchange.parts = 1
        exchange.is_whole = True
        connection.idle_since = None
        connection.take(exchange)
        connection.is_whole(exchange)
        return True

    @property
    def _is_midway(self) -> bool:
        """In a request."""
        return self.exchange is not None or self.waiting_since is not None

    def feed(self, data: bytes | memoryview) -> None:
        is_between = self.exchange is None and (self.waiting_since is None or not self.began)
        self._feed(data)
        ended, self._ended = self._ended, []
        if len(ended) == 1 and is_between and not self._is_midway and isinstance(data, bytes):
            self._remember(data, ended[0])

    def _remember(self, data: bytes, exchange: Exchange) -> None:
        """The head of a request that was all of `data`, if what follows it is the body as it is."""
        body = exchange.body
        size = len(data) - len(body)
        if exchange.parts != 1 or not exchange.keep_alive or size > _MOST_KNOWN_BYTES:
            return
        is_counted = exchange.header(b"content-length") == b"%d" % len(body)
        if is_counted and data.find(b"\r\n\r\n") + 4 == size:
            self._known = KnownHead(data[:size], len(data), exchange)

    def _feed(self, data: bytes | memoryview) -> None:
        reading, body_bytes = self.exchange, self._body_bytes
        self._ended_in_feed = False
        while data:
            self._feeding = len(data)
            self._at_most += len(data)
            try:
                self._parser.feed_data(data)
                break
            except httptools.HttpParserUpgrade as error:
                data = memoryview(data)[error.args[0] :]
            except httptools.HttpParserError:
                self._connection.refuse(*INVALID)
                return
            if not self.is_deaf and not self._connection.is_closing:
                self._stay_with_http1()
            if self.is_deaf or self._connection.is_closing:
                return
        if self.waiting_since is not None:
            # Of what was fed, some may have been of the request before.
            size = self._head_bytes + self._feeding
            self._head_bytes = self._parsed_bytes() if self._ended_in_feed else size
            self._check_head(self._head_bytes)
        elif reading is not None and reading is self.exchange:
            self._beside_body += self._feeding - (self._body_bytes - body_bytes)
            if self._beside_body > _MOST_BESIDE_BODY + self._body_bytes // 4:
                text = f"There are more than {_MOST_BESIDE_BODY} bytes beside the body."
                self._connection.refuse(431, error_body(text))

    def _parsed_bytes(self) -> int:
        return len(self._url) + sum([len(n) + len(v) + 4 for n, v in self._headers])

    def _check_head(self, size: int) -> None:
        most = self._limits.header_bytes
        if len(self._headers) > _MOST_HEADERS:
            self._connection.refuse(
                431, error_body(f"There are more than {_MOST_HEADERS} headers.")
            )
        elif size > most:
            self._connection.refuse(431, error_body(f"The headers are larger than {most} bytes."))

    def _stay_with_http1(self) -> None:
        """Answer a request for another protocol (h2c, websocket) as if it had not asked.

        RFC 9110 lets a server ignore it, but the parser takes what follows for that protocol, and
        so the body would be lost: the head is read again without these words.
        """
        self._is_upgrading = False
        asking, self._parser = self._parser, _parser(self)
        version = asking.get_http_version().encode()
        head = without_upgrade(asking.get_method(), self._url, version, self._headers)
        try:
            self._parser.feed_data(head)
        except httptools.HttpParserError:
            self._connection.refuse(*INVALID)

    # ------------------------------------------------------------ what the parser finds

    def on_message_begin(self) -> None:
        self.waiting_since = self.began = self._loop.time()
        self._connection.idle_since = None
        self._head_bytes = 0
        self._at_most = self._feeding
        self._url = b""
        self._headers = []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self.is_deaf or self._connection.ends:
            raise _Refused
        self.waiting_since = None
        at_most, headers = self._at_most, self._headers  # bytes: with the body, maybe
        if at_most > self._limits.header_bytes or len(headers) > _MOST_HEADERS:
            self._check_head(self._parsed_bytes())
            if self.is_deaf:
                raise _Refused
        parser = self._parser
        method = parser.get_method()
        if method == b"CONNECT":  # what follows is for another server
            self._connection.refuse(*INVALID)
            raise _Refused
        if parser.should_upgrade():
            self._is_upgrading = True
            return
        if not self._speaks_1_1:  # who once did, does
            self._speaks_1_1 = parser.get_http_version() >= "1.1"
        keep_alive = self._speaks_1_1 and parser.should_keep_alive()
        exchange = Exchange(self._connection, method, self._url, headers, keep_alive, self.began)
        if not self._speaks_1_1:
            exchange.hears_go_on = False
        self.exchange = exchange
        self._headers = []  # those after the last chunk are passed over
        self._body_bytes = self._beside_body = 0
        self._connection.take(exchange)

    def on_body(self, part: bytes) -> None:
        exchange = self.exchange
        self._body_bytes += len(part)
        if exchange is None or exchange.answered:
            return
        if exchange is self._connection.current and exchange.prediction is None:
            return  # what is asked needs no body
        if exchange.parts:
            exchange.add(part)
            if bodies.is_scattered(exchange.parts, len(exchange.body)):
                self._connection.refuse_body(bodies.scattered())
                raise _Refused
        else:  # and most have no other
            exchange.body = part
            exchange.parts = 1
        if len(exchange.body) > self._most_body_bytes:
            self._connection.refuse_body(bodies.too_large(self._most_body_bytes))
            raise _Refused

    def on_message_complete(self) -> None:
        self._ended_in_feed = True
        if self._is_upgrading:
            return
        exchange, self.exchange = self.exchange, None
        assert exchange is not None
        exchange.is_whole = True
        self._ended.append(exchange)
        self._connection.is_whole(exchange)


def _parser(reader: RequestReader) -> Any:
    parser = httptools.HttpRequestParser(reader)
    # What follows a request that ends its connection is passed over, and not an error.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


class _Refused(Exception):
    """Ends the parsing."""
