"""HTTP/1.1 on one connection, with an end to patience: how long and how large a request may be.

Nothing of that costs a request time: a tick once a second looks at all connections. Requests are
answered in their order, one after the other; while one is answered, no more is read than came with
it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import Any

import httptools

from estimand.serving.access.room import Party
from estimand.serving.rest import body as bodies
from estimand.serving.rest.body import Arrival
from estimand.serving.rest.exchange import Exchange
from estimand.serving.rest.heads import JSON, error_body, without_upgrade
from estimand.serving.rest.outgoing import Outgoing
from estimand.serving.rest.shared import Shared
from estimand.serving.status import StatusError, from_exception

log = logging.getLogger("estimand.serving")

_MOST_HEADERS = 256
# Bytes beside a body: sizes and extensions of chunks, trailers. Chunks may have a quarter more.
_MOST_BESIDE_BODY = 65_536
_INVALID = 400, b"Invalid HTTP request received.", b"text/plain; charset=utf-8"
# An end that comes so soon after a request is the end of what is asked, and not of the waiting.
_ENDS_WITH_REQUEST = 1.0  # seconds
# What is parsed at a time, so that a read full of small requests does not hold up the others.
_SLICE, _SLICE_OF_BODY = 16_384, 65_536
# Requests that are begun at a time, of those that come together; for the same reason.
_AT_ONCE = 4


class Connection(asyncio.Protocol):
    def __init__(self, shared: Shared, address: Any = None) -> None:
        """`address` is that of a visitor who was let in already."""
        self.shared = shared
        self._address = address
        self.party = Party()
        self._loop = shared.loop
        self._most_body_bytes = shared.limits.body_bytes
        self._parser = _parser(self)
        # The request that is read
        self._waiting_since: float | None = self._loop.time()  # for its head
        self._began = 0.0
        self._url = b""
        self._headers: list[tuple[bytes, bytes]] = []
        self._head_bytes = 0  # that have come, at least
        self._at_most = 0  # and at most
        self._feeding = 0  # bytes that are parsed now
        self._ended_in_feed = False  # the request before
        self._is_upgrading = False  # it asks for another protocol
        self._reading: Exchange | None = None  # its head is there, its body is not yet
        self._arrival: Arrival | None = None
        self._body_bytes = self._beside_body = 0
        self._unread = memoryview(b"")  # what came with the request that is answered
        # The request that is answered, and those that have come since
        self._current: Exchange | None = None
        self._queue: deque[Exchange] = deque()
        self._begun = 0  # in this turn of the event loop
        self._next_is_due = False
        self._is_reading = True
        self._paused = False  # the client does not take what is written
        self._idle_since: float | None = None
        self._is_deaf = False  # what comes is no request any more
        self._asks_no_more = False
        self._speaks_1_1 = False
        self._listened_again = 0.0  # after a request that took a while, or several
        self.ends = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self.transport_is_closing = transport.is_closing
        self.write = transport.write
        self.outgoing = Outgoing(transport, self._loop, self.shared.limits.answer_seconds)
        if self._address is None:
            self._address = self.shared.visitors.come(transport.get_extra_info("peername"))
        if self._address is None or self.shared.is_ending:
            transport.abort()
        else:
            self.shared.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.ends = True
        self.shared.connections.discard(self)
        self.shared.visitors.go(self._address)
        if self.shared.last_asker is self:
            self.shared.last_asker = None
        if self._reading is not None and self._reading is self._current:
            self.body_fails(bodies.client_is_gone())
        self._queue.clear()
        self._unread = memoryview(b"")

    def eof_received(self) -> bool:
        """Whether the connection stays: who asks no more may still wait for answers. Who ends it
        later than with a request has given up."""
        if self._asks_no_more:
            return True
        begun = max(self._began, self._listened_again)
        is_late = self._loop.time() - begun > _ENDS_WITH_REQUEST
        if is_late or not self._transport.can_write_eof():  # TLS ends both ways at once
            return False
        if self._queue and not self._queue[-1].is_whole:
            self._queue.pop()  # and never will be
            self._reading = None
        last = self._queue[-1] if self._queue else self._current
        if last is None or not last.is_whole:
            return False
        last.keep_alive = False
        self._asks_no_more = True
        self._waiting_since = None
        return True

    @property
    def is_closing(self) -> bool:
        return self.ends or self.transport_is_closing()

    # ------------------------------------------------------------ bytes arrive

    def data_received(self, data: bytes) -> None:
        if self._is_deaf or self.ends:
            return  # what a client that was refused goes on to send
        self._begun = 0
        if self._unread:  # reading was paused, but this was on its way
            data = bytes(self._unread) + data
        elif len(data) <= _SLICE:
            self._feed(data)
            if self._reading is not None:
                self._look_at_body()
            return
        self._unread = memoryview(data)
        self._read_on()

    def _read_on(self) -> None:
        """As far as requests can be taken."""
        while self._unread and not self._queue and not self._is_deaf and not self.is_closing:
            size = _SLICE if self._reading is None else _SLICE_OF_BODY
            part, self._unread = self._unread[:size], self._unread[size:]
            self._feed(part)
        self._look_at_body()
        self.read_or_wait()

    def _feed(self, data: bytes | memoryview) -> None:
        reading, body_bytes = self._reading, self._body_bytes
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
                self._refuse(*_INVALID)
                return
            if not self._is_deaf and not self.is_closing:
                self._stay_with_http1()
            if self._is_deaf or self.is_closing:
                return
        if self._waiting_since is not None:
            # Of what was fed, some may have been of the request before.
            size = self._head_bytes + self._feeding
            self._head_bytes = self._parsed_bytes() if self._ended_in_feed else size
            self._check_head(self._head_bytes)
        elif reading is not None and reading is self._reading:
            self._beside_body += self._feeding - (self._body_bytes - body_bytes)
            if self._beside_body > _MOST_BESIDE_BODY + self._body_bytes // 4:
                text = f"There are more than {_MOST_BESIDE_BODY} bytes beside the body."
                self._refuse(431, error_body(text))

    def _parsed_bytes(self) -> int:
        return len(self._url) + sum([len(n) + len(v) + 4 for n, v in self._headers])

    def _check_head(self, size: int) -> None:
        most = self.shared.limits.header_bytes
        if len(self._headers) > _MOST_HEADERS:
            self._refuse(431, error_body(f"There are more than {_MOST_HEADERS} headers."))
        elif size > most:
            self._refuse(431, error_body(f"The headers are larger than {most} bytes."))

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
            self._refuse(*_INVALID)

    # ------------------------------------------------------------ what the parser finds

    def on_message_begin(self) -> None:
        self._waiting_since = self._began = self._loop.time()
        self._idle_since = None
        self._head_bytes = 0
        self._at_most = self._feeding
        self._url = b""
        self._headers = []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._is_deaf or self.ends:
            raise _Refused
        self._waiting_since = None
        at_most, headers = self._at_most, self._headers  # bytes: with the body, maybe
        if at_most > self.shared.limits.header_bytes or len(headers) > _MOST_HEADERS:
            self._check_head(self._parsed_bytes())
            if self._is_deaf:
                raise _Refused
        parser = self._parser
        method = parser.get_method()
        if method == b"CONNECT":  # what follows is for another server
            self._refuse(*_INVALID)
            raise _Refused
        if parser.should_upgrade():
            self._is_upgrading = True
            return
        if not self._speaks_1_1:  # who once did, does
            self._speaks_1_1 = parser.get_http_version() >= "1.1"
        keep_alive = self._speaks_1_1 and parser.should_keep_alive()
        exchange = Exchange(self, method, self._url, headers, keep_alive, self._began)
        if not self._speaks_1_1:
            exchange.hears_go_on = False
        self._reading = exchange
        self._headers = []  # those after the last chunk are passed over
        self._body_bytes = self._beside_body = 0
        self._take(exchange)

    def on_body(self, part: bytes) -> None:
        exchange = self._reading
        self._body_bytes += len(part)
        if exchange is None or exchange.answered:
            return
        if exchange is self._current and exchange.prediction is None:
            return  # what is asked needs no body
        if exchange.parts:
            exchange.add(part)
            if bodies.is_scattered(exchange.parts, len(exchange.body)):
                self._body_is_refused(bodies.scattered())
        else:  # and most have no other
            exchange.body = part
            exchange.parts = 1
        if len(exchange.body) > self._most_body_bytes:
            self._body_is_refused(bodies.too_large(self._most_body_bytes))

    def _body_is_refused(self, error: StatusError) -> None:
        if self._reading is self._current:
            self.body_fails(error)
        else:  # of a request whose turn has not come: its client is none that wants an answer
            self._close()
        raise _Refused

    def on_message_complete(self) -> None:
        self._ended_in_feed = True
        if self._is_upgrading:
            return
        exchange, self._reading = self._reading, None
        assert exchange is not None
        exchange.is_whole = True
        if exchange is self._current:
            self._run(exchange)
        elif self.ends:
            self._transport.close()  # nothing of it is on its way

    # ------------------------------------------------------------ requests, one after the other

    def _take(self, exchange: Exchange) -> None:
        is_free = self._current is None and not self._queue and not self._paused
        if is_free and self._begun < _AT_ONCE:
            self._begun += 1
            self._start(exchange)
        else:
            self._queue.append(exchange)
            self.read_or_wait()
            if is_free:
                self._start_soon()

    def _start(self, exchange: Exchange) -> None:
        self._current = exchange
        self._idle_since = None
        try:
            if exchange.refusal is not None:
                exchange.answer(*exchange.refusal)
            else:
                self.shared.start(exchange)
        except httptools.HttpParserInvalidURLError:
            exchange.keep_alive = False
            exchange.answer(*_INVALID)
        except Exception as error:
            log.exception("%r failed", exchange.target[:200])
            exchange.fail(from_exception(error))

    def _run(self, exchange: Exchange) -> None:
        """Its body is whole."""
        prediction = exchange.prediction
        if prediction is None:
            return
        exchange.prediction = None
        if self._arrival is not None:
            self._arrival.is_whole()
            self._listened_again = self._loop.time()
            prediction.arrival, self._arrival = self._arrival, None
        prediction.run(exchange.body, self.shared.asks_alone(self))

    def _start_next(self) -> None:
        """Of those that came while another was answered."""
        self._begun = 0
        self._next_is_due = False
        if self.is_closing or self._current is not None or self._paused:
            return
        if self._queue:
            exchange = self._queue.popleft()
            self._start(exchange)
            if exchange.is_whole:
                self._run(exchange)
            self._look_at_body()
            if self._reading is not None and self._reading is self._current:
                self._read_on()  # the rest of its body
        elif self._unread:
            self._read_on()
        self.read_or_wait()

    def is_answered(self, exchange: Exchange) -> None:
        self._current = None
        if not exchange.keep_alive:
            self._close()
            return
        self._idle_since = self._loop.time()
        if self._queue or self._unread:
            self._start_soon()

    def _start_soon(self) -> None:
        if not self._next_is_due:
            self._next_is_due = True
            self._loop.call_soon(self._start_next)

    # ------------------------------------------------------------ a body that takes a while

    def _look_at_body(self) -> None:
        """After all that came was read."""
        exchange = self._reading
        if exchange is None or exchange is not self._current or exchange.prediction is None:
            return
        if self._arrival is None:
            most, deadline = exchange.prediction.most_bytes, exchange.prediction.deadline
            assert deadline is not None
            try:
                self._arrival = Arrival(self, self.party, self.shared.room, most, deadline)
            except StatusError as error:
                self.body_fails(error)
                return
        self._arrival.has(len(exchange.body))
        self.read_or_wait()

    def body_fails(self, error: StatusError) -> None:
        if self._arrival is not None:
            self._arrival.end()
            self._arrival = None
        exchange = self._reading
        if exchange is not None and exchange.prediction is not None:
            prediction, exchange.prediction = exchange.prediction, None
            exchange.body = b""
            prediction.refuse(error)

    def read_or_wait(self) -> None:
        """Read on, unless requests wait, or the room is full, or answers are not taken."""
        has_enough = self._queue or self._unread or self._paused
        finds_no_room = self._arrival is not None and self._arrival.asks
        reads = self.ends or not (has_enough or finds_no_room)
        if reads != self._is_reading and not self._transport.is_closing():
            self._is_reading = reads
            self._listened_again = self._loop.time()
            if reads and self._waiting_since is not None:
                self._waiting_since = self._listened_again  # what it has sent was not looked at
            (self._transport.resume_reading if reads else self._transport.pause_reading)()

    # ------------------------------------------------------------ writing, and the end

    def pause_writing(self) -> None:
        self._paused = True
        self.read_or_wait()

    def resume_writing(self) -> None:
        self._paused = False
        self._start_next()

    def tick(self, now: float) -> None:
        limits = self.shared.limits
        if self.outgoing.tick(now, self._paused):
            return
        if self._waiting_since is not None:
            if self._is_reading and now - self._waiting_since > limits.header_seconds:
                self._refuse(408, error_body("The headers did not arrive in time."))
        elif self._idle_since is not None and now - self._idle_since > limits.idle_seconds:
            self._transport.close()

    def end_soon(self) -> None:
        """After the answer that is due, if there is one."""
        if self._current is None:
            self._transport.close()
        else:
            self._current.keep_alive = False

    def abort(self) -> None:
        self._transport.abort()

    def _close(self) -> None:
        self.ends = True
        self._queue.clear()
        self._unread = memoryview(b"")
        self.outgoing.end(is_midway=self._reading is not None or self._is_deaf)
        self.read_or_wait()

    def _refuse(self, http: int, body: bytes, kind: bytes = JSON) -> None:
        """What is no request: it is answered in its turn, and nothing more is read."""
        if self._is_deaf or self.is_closing:
            return
        self._is_deaf = True
        self._waiting_since = None
        exchange = self._reading
        if exchange is not None and exchange.answered:
            self._close()  # it was the rest of its body
        elif exchange is not None and exchange is self._current:
            exchange.keep_alive = False
            exchange.answer(http, body, kind)
            self.body_fails(bodies.client_is_gone())
        else:
            if exchange is not None:
                self._queue.pop()
            refused = Exchange(self, b"", b"", [], False, self._began)
            refused.refusal = http, body, kind
            self._take(refused)


def _parser(connection: Connection) -> Any:
    parser = httptools.HttpRequestParser(connection)
    # What follows a request that ends its connection is passed over, and not an error.
    parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser


class _Refused(Exception):
    """Ends the parsing."""
