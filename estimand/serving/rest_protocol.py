"""HTTP/1.1 with an end to patience: how long and how large the start of a request may be.

uvicorn bounds neither. Nothing here costs a request time: a tick once a second looks at all
connections.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_SECONDS_FOR_THE_FIRST_BODY_PART = 2.0


@dataclass(frozen=True)
class RestLimits:
    header_seconds: float = 10.0  # from the connection, or the first byte, to the last header
    header_bytes: int = 65_536  # of the first line and the headers
    connections: int = 10_000


class PatientProtocol(HttpToolsProtocol):
    """`limits` and `is_tls` are set by `make`."""

    limits = RestLimits()

    def connection_made(self, transport: Any) -> None:
        if len(self.connections) >= self.limits.connections:
            transport.abort()
            # What the parent class does in `connection_lost` needs these.
            self.transport = transport
            return
        self._waiting_since: float | None = self.loop.time()
        self._head_bytes = 0
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        # Data before the headers' end count as headers: the parser keeps these without bound.
        if self._waiting_since is not None or self.cycle is None or self.cycle.response_complete:
            if self._waiting_since is None:
                self._waiting_since = self.loop.time()
            self._head_bytes += len(data)
        super().data_received(data)
        if self._waiting_since is not None and self._head_bytes > self.limits.header_bytes:
            self._refuse(431, f"The headers are larger than {self.limits.header_bytes} bytes.")

    def on_headers_complete(self) -> None:
        self._waiting_since = None
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        self._head_bytes = 0
        if size > self.limits.header_bytes:
            self._refuse(431, f"The headers are larger than {self.limits.header_bytes} bytes.")
            raise _Refused
        super().on_headers_complete()

    def tick(self, now: float) -> None:
        cycle = self.cycle
        if self._waiting_since is not None and self.transport is not None:
            if now - self._waiting_since > self.limits.header_seconds:
                self._refuse(408, "The headers did not arrive in time.")
        elif cycle is not None and cycle.more_body and not cycle.response_complete:
            # Whoever waits for the body's first part gets an empty one, and then has a deadline.
            cycle.message_event.set()

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
