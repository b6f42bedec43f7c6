"""HTTP/1.1 with an end to patience: how long and how large the start of a request may be.

uvicorn bounds neither. Nothing here costs a request time: a tick once a second looks at all
connections.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from estimand.serving.access.room import Party, Room
from estimand.serving.rest.quick import Exchange, QuickWay
from estimand.serving.rest.writing import JoinedWrites

_TICK_SECONDS = 1.0
_SECONDS_TO_AGREE = 1.0
_UPGRADES = (b"upgrade", b"http2-settings")


@dataclass(frozen=True)
class RestLimits:
    header_seconds: float = 10.0  # from the connection, or the first byte, to the last header
    header_bytes: int = 65_536  # of the first line and the headers
    answer_seconds: float = 120.0  # in which a part of an answer must be taken
    connections: int = 10_000


class PatientProtocol(HttpToolsProtocol):
    """`bounded` gives a class with other limits, and with a quick way for predictions."""

    limits = RestLimits()
    quick: QuickWay | None = None

    @classmethod
    def bounded(cls, limits: RestLimits, quick: QuickWay | None = None) -> type[PatientProtocol]:
        """Without a quick way, all requests go through ASGI."""
        return type("PatientProtocol", (cls,), {"limits": limits, "quick": quick})

    def connection_made(self, transport: Any) -> None:
        self._waiting_since: float | None = self.loop.time()
        self._began = 0.0  # the request that is read
        self._party = Party()
        self._paused_since: float | None = None
        self._head_bytes = self._at_most = 0
        self._raw = transport
        self._closing_since: float | None = None
        self._idle_since: float | None = None  # after an answer on the quick way
        self._route: Any = None  # of a request on the quick way, while its body is read
        self._body: list[bytes] = []
        self._is_upgrading = False  # the request asks for another protocol
        self.transport = transport = cast(Any, JoinedWrites(transport, self.loop))
        if len(self.connections) >= self.limits.connections:
            transport.abort()
        else:
            super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._at_most = self._head_bytes + len(data)
        self._idle_since = None
        self._feed(data)
        if self._route is not None:
            self._take_the_usual_way()  # its body is not there yet
        if self._waiting_since is not None:
            self._head_bytes += len(data)
            if self._head_bytes > self.limits.header_bytes:
                self._refuse(431, f"The headers are larger than {self.limits.header_bytes} bytes.")
        elif (
            self.timeout_keep_alive_task is None
            and self._idle_since is None
            and (self.cycle is None or self.cycle.response_complete)
        ):
            self._waiting_since = self.loop.time()  # empty lines, of which nothing has begun

    def _feed(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as error:
            self._stay_with_http1(data[error.args[0] :])
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")

    def _stay_with_http1(self, rest: bytes) -> None:
        """Answer a request for another protocol (h2c, websocket) as if it had not asked.

        RFC 9110 lets a server ignore it, but the parser takes what follows for that protocol, and
        so the body would be lost: the request is read again without these words.
        """
        self._is_upgrading = False
        parser, self.parser = self.parser, httptools.HttpRequestParser(self)
        with contextlib.suppress(AttributeError):  # of an older httptools
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
        version = parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (parser.get_method(), self.url, version)]
        for name, value in self.headers:
            if name == b"connection":
                kept = (word for word in value.split(b",") if word.strip().lower() not in _UPGRADES)
                value = b",".join(kept)
            if name not in _UPGRADES:
                lines.append(b"%b: %b" % (name, value))
        self._feed(b"\r\n".join(lines) + b"\r\n\r\n" + rest)

    def on_message_begin(self) -> None:
        self._waiting_since = self._began = self.loop.time()
        self._head_bytes = 0
        # uvicorn's own comes when it is known to be needed.
        self.url = b""
        self.expect_100_continue = False
        self.headers = []

    def on_headers_complete(self) -> None:
        self._waiting_since = None
        if self._at_most > self.limits.header_bytes:  # with the body, maybe
            size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
            if size > self.limits.header_bytes:
                self._refuse(431, f"The headers are larger than {self.limits.header_bytes} bytes.")
                raise _Refused  # ends the parsing
        if self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT":
            self._is_upgrading = True
            return
        if self.quick is not None:
            self._route = self.quick.route(self)
        if self._route is None:
            self._take_the_usual_way()

    def _take_the_usual_way(self) -> None:
        route, self._route = self._route, None
        url, headers, expects = self.url, self.headers, self.expect_100_continue
        super().on_message_begin()
        self.url, self.expect_100_continue = url, expects
        self.headers.extend(headers)
        cast(Any, self.scope).update({"estimand.began": self._began, "estimand.party": self._party})
        super().on_headers_complete()
        if route is not None and self._body:
            body, self._body = self._body, []
            super().on_body(b"".join(body))

    def on_body(self, body: bytes) -> None:
        if self._route is None:
            super().on_body(body)
        else:
            self._body.append(body)

    def on_message_complete(self) -> None:
        route, quick = self._route, self.quick
        if self._is_upgrading:
            return
        if route is None or quick is None:
            super().on_message_complete()
            return
        parts = self._body
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        if len(body) > quick.most_bytes:
            self._take_the_usual_way()
            super().on_message_complete()
            return
        self._route, self._body = None, []
        self.cycle = exchange = cast(Any, Exchange(self))
        quick.start(route, body, self._began, exchange)

    def is_answered(self) -> None:
        """On the quick way."""
        if self.pipeline:
            self.on_response_complete()
            return
        self.server_state.total_requests += 1
        self._idle_since = self.loop.time()

    def send_400_response(self, msg: str) -> None:
        if not self.transport.is_closing():
            super().send_400_response(msg)

    def pause_writing(self) -> None:
        self._paused_since = self.loop.time()
        super().pause_writing()

    def resume_writing(self) -> None:
        self._paused_since = None
        super().resume_writing()

    def tick(self, now: float) -> None:
        cycle = self.cycle
        if self._raw.is_closing():
            self._end_for_good(now)
        elif (
            self._paused_since is not None and now - self._paused_since > self.limits.answer_seconds
        ):
            self.transport.abort()
        elif self._idle_since is not None:
            if now - self._idle_since > self.timeout_keep_alive:
                self.transport.close()
        elif self._waiting_since is not None:
            if now - self._waiting_since > self.limits.header_seconds:
                self._refuse(408, "The headers did not arrive in time.")
        elif cycle is not None and cycle.more_body and not cycle.response_complete:
            # Whoever waits for the body's first part gets an empty one, and then has a deadline.
            cycle.message_event.set()

    def _end_for_good(self, now: float) -> None:
        """With TLS, the end is agreed upon; a client that is idle may not hear of it for long."""
        if self._closing_since is None:
            self._closing_since = now
        elif (
            now - self._closing_since > _SECONDS_TO_AGREE and not self._raw.get_write_buffer_size()
        ):
            self._raw.abort()

    def _refuse(self, code: int, text: str) -> None:
        if self.transport.is_closing():
            return
        body = b'{"error": "%s"}' % text.encode()
        reason = {408: b"Request Timeout", 431: b"Request Header Fields Too Large"}[code]
        self.transport.write(
            b"HTTP/1.1 %d %s\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
            b"connection: close\r\n\r\n%s" % (code, reason, len(body), body)
        )
        self.transport.close()


class _Refused(Exception):
    pass


async def watch(connections: Collection[Any], room: Room | None = None) -> None:
    """Ticks, for ever."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(_TICK_SECONDS)
        if room is not None:
            room.tick(loop.time())
        for connection in list(connections):
            connection.tick(loop.time())
