"""One write for an answer.

uvicorn writes the headers and the body of an answer by themselves: two calls of the system, two
packets, and a client that is woken twice, which together cost more than the rest of the answer.
"""

from __future__ import annotations

import asyncio
from typing import Any

_LARGE = 65_536  # bytes; to copy them would cost more than a call


class JoinedWrites:
    """A transport that hands on at once what is written in one turn of the event loop."""

    __slots__ = (
        "_loop",
        "_parts",
        "_transport",
        "get_extra_info",
        "is_closing",
        "pause_reading",
        "resume_reading",
    )

    def __init__(self, transport: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []
        self.get_extra_info = transport.get_extra_info
        self.is_closing = transport.is_closing
        self.pause_reading = transport.pause_reading
        self.resume_reading = transport.resume_reading

    def write(self, data: bytes) -> None:
        if len(data) > _LARGE:
            self._flush()
            self._transport.write(data)
            return
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def write_now(self, data: bytes) -> None:
        """Behind what waits, and without waiting: for whole answers."""
        if self._parts:
            self._flush()
        self._transport.write(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        self._parts = []
        self._transport.abort()

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts and not self.is_closing():
            self._transport.write(b"".join(parts))
