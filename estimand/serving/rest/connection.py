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

from estimand.serving.access.request_memory import ConnectionShare
from estimand.serving.rest import body as bodies
from estimand.serving.rest.body import Arrival
from estimand.serving.rest.exchange import Exchange
from estimand.serving.rest.heads import JSON, error_body
from estimand.serving.rest.outgoing import Outgoing
from estimand.serving.rest.request_reader import INVALID, RequestReader
from estimand.serving.rest.shared import Shared
from estimand.serving.status import StatusError, from_exception

log = logging.getLogger("estimand.serving")

# An end that comes so soon after a request is the end of what is asked, and not of the waiting.
_ENDS_WITH_REQUEST = 1.0  # seconds
# What is parsed at a time, so that a read full of small requests does not hold up the others.
_SLICE, _SLICE_OF_BODY = 16_384, 65_536
# Requests that are begun at a time, of those that come together; for the same reason.
_AT_ONCE = 4


class Connection(asyncio.Protocol):
    def __init__(self, shared: Shared, address: Any = None) -> None:
        """`address` is that of a peer that was let in already."""
        self.shared = shared
        self._address = address
        self.share = ConnectionShare()
        self._loop = shared.loop
        self.reader = RequestReader(self)
        self._arrival: Arrival | None = None
        self._unread = memoryview(b"")  # what came with the request that is answered
        # The request that is answered, and those that have come since
        self.current: Exchange | None = None
        self._queue: deque[Exchange] = deque()
        self._begun = 0  # in this turn of the event loop
        self._next_is_due = False
        self._is_reading = True
        self._paused = False  # the client does not take what is written
        self.idle_since: float | None = None
        self._asks_no_more = False
        self._listened_again = 0.0  # after a request that took a while, or several
        self.ends = False

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self.transport_is_closing = transport.is_closing
        self.write = transport.write
        self.outgoing = Outgoing(transport, self._loop, self.shared.limits.answer_seconds)
        if self._address is None:
            self._address = self.shared.connection_limits.admit(
                transport.get_extra_info("peername")
            )
        if self._address is None or self.shared.is_ending:
            transport.abort()
        else:
            self.shared.connections.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.ends = True
        self.shared.connections.discard(self)
        self.shared.connection_limits.release(self._address)
        if self.shared.last_asker is self:
            self.shared.last_asker = None
        if self.reader.exchange is not None and self.reader.exchange is self.current:
            self.body_fails(bodies.client_is_gone())
        self._queue.clear()
        self._unread = memoryview(b"")

    def eof_received(self) -> bool:
        """Whether the connection stays: who asks no more may still wait for answers. Who ends it
        later than with a request has given up."""
        if self._asks_no_more:
            return True
        begun = max(self.reader.began, self._listened_again)
        is_late = self._loop.time() - begun > _ENDS_WITH_REQUEST
        if is_late or not self._transport.can_write_eof():  # TLS ends both ways at once
            return False
        if self._queue and not self._queue[-1].is_whole:
            self._queue.pop()  # and never will be
            self.reader.exchange = None
        last = self._queue[-1] if self._queue else self.current
        if last is None or not last.is_whole:
            return False
        last.keep_alive = False
        self._asks_no_more = True
        self.reader.waiting_since = None
        return True

    @property
    def is_closing(self) -> bool:
        return self.ends or self.transport_is_closing()

    # ------------------------------------------------------------ bytes arrive

    def data_received(self, data: bytes) -> None:
        if self.reader.is_deaf or self.ends:
            return  # what a client that was refused goes on to send
        self._begun = 0
        if self._unread:  # reading was paused, but this was on its way
            data = bytes(self._unread) + data
        elif len(data) <= _SLICE:
            if self.reader.feed_known(data):
                return
            self.reader.feed(data)
            if self.reader.exchange is not None:
                self._look_at_body()
            return
        self._unread = memoryview(data)
        self._read_on()

    def _read_on(self) -> None:
        """As far as requests can be taken."""
        while self._unread and not self._queue and not self.reader.is_deaf and not self.is_closing:
            size = _SLICE if self.reader.exchange is None else _SLICE_OF_BODY
            part, self._unread = self._unread[:size], self._unread[size:]
            self.reader.feed(part)
        self._look_at_body()
        self.read_or_wait()

    # ------------------------------------------------------------ requests, one after the other

    def take(self, exchange: Exchange) -> None:
        is_free = self.current is None and not self._queue and not self._paused
        if is_free and self._begun < _AT_ONCE:
            self._begun += 1
            self._start(exchange)
        else:
            self._queue.append(exchange)
            self.read_or_wait()
            if is_free:
                self._start_soon()

    def _start(self, exchange: Exchange) -> None:
        self.current = exchange
        self.idle_since = None
        try:
            if exchange.refusal is not None:
                exchange.answer(*exchange.refusal)
            else:
                self.shared.start(exchange)
        except httptools.HttpParserInvalidURLError:
            exchange.keep_alive = False
            exchange.answer(*INVALID)
        except Exception as error:
            log.exception("%r failed", exchange.target[:200])
            exchange.fail(from_exception(error))

    def is_whole(self, exchange: Exchange) -> None:
        """It is read to its end."""
        if exchange is self.current:
            self._run(exchange)
        elif self.ends:
            self._transport.close()  # nothing of it is on its way

    def _run(self, exchange: Exchange) -> None:
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
        if self.is_closing or self.current is not None or self._paused:
            return
        if self._queue:
            exchange = self._queue.popleft()
            self._start(exchange)
            if exchange.is_whole:
                self._run(exchange)
            self._look_at_body()
            if self.reader.exchange is not None and self.reader.exchange is self.current:
                self._read_on()  # the rest of its body
        elif self._unread:
            self._read_on()
        self.read_or_wait()

    def is_answered(self, exchange: Exchange) -> None:
        self.current = None
        if not exchange.keep_alive:
            self._close()
            return
        self.idle_since = self._loop.time()
        if self._queue or self._unread:
            self._start_soon()

    def _start_soon(self) -> None:
        if not self._next_is_due:
            self._next_is_due = True
            self._loop.call_soon(self._start_next)

    # ------------------------------------------------------------ a body that takes a while

    def _look_at_body(self) -> None:
        """After all that came was read."""
        exchange = self.reader.exchange
        if exchange is None or exchange is not self.current or exchange.prediction is None:
            return
        if self._arrival is None:
            most, deadline = exchange.prediction.most_bytes, exchange.prediction.deadline
            try:
                self._arrival = Arrival(self, self.share, self.shared.memory, most, deadline)
            except StatusError as error:
                self.body_fails(error)
                return
        self._arrival.has(len(exchange.body))
        self.read_or_wait()

    def refuse_body(self, error: StatusError) -> None:
        """Before it was read to its end."""
        if self.reader.exchange is self.current:
            self.body_fails(error)
        else:  # of a request whose turn has not come: its client is none that wants an answer
            self._close()

    def body_fails(self, error: StatusError) -> None:
        if self._arrival is not None:
            self._arrival.end()
            self._arrival = None
        exchange = self.reader.exchange
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
            if reads and self.reader.waiting_since is not None:
                self.reader.waiting_since = (
                    self._listened_again
                )  # what it has sent was not looked at
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
        if self.reader.waiting_since is not None:
            if self._is_reading and now - self.reader.waiting_since > limits.header_seconds:
                self.refuse(408, error_body("The headers did not arrive in time."))
        elif self.idle_since is not None and now - self.idle_since > limits.idle_seconds:
            self._transport.close()

    def end_soon(self) -> None:
        """After the answer that is due, if there is one."""
        if self.current is None:
            self._transport.close()
        else:
            self.current.keep_alive = False

    def abort(self) -> None:
        self._transport.abort()

    def _close(self) -> None:
        self.ends = True
        self._queue.clear()
        self._unread = memoryview(b"")
        self.outgoing.end(is_midway=self.reader.exchange is not None or self.reader.is_deaf)
        self.read_or_wait()

    def refuse(self, http: int, body: bytes, kind: bytes = JSON) -> None:
        """What is no request: it is answered in its turn, and nothing more is read."""
        if self.reader.is_deaf or self.is_closing:
            return
        self.reader.is_deaf = True
        self.reader.waiting_since = None
        exchange = self.reader.exchange
        if exchange is not None and exchange.answered:
            self._close()  # it was the rest of its body
        elif exchange is not None and exchange is self.current:
            exchange.keep_alive = False
            exchange.answer(http, body, kind)
            self.body_fails(bodies.client_is_gone())
        else:
            if exchange is not None:
                self._queue.pop()
            refused = Exchange(self, b"", b"", [], False, self.reader.began)
            refused.refusal = http, body, kind
            self.take(refused)
