"""What is written to a client, as far as it takes it, and the end of its connection."""

from __future__ import annotations

import asyncio
import contextlib

_SECONDS_TO_AGREE = 1.0
_SECONDS_TO_LINGER = 2.0
_TAKEN_AT_LEAST = 65_536  # bytes of an answer, in the time that a client has for a part of it


class Outgoing:
    """Of one connection. `ends_since`: nothing more will be written."""

    def __init__(
        self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, answer_seconds: float
    ) -> None:
        self._transport = transport
        self._loop = loop
        self._answer_seconds = answer_seconds
        self._agreeing_since: float | None = None
        self.ends_since: float | None = None
        self.unsent = 0  # bytes that the client has not taken, at the last tick
        self.unsent_since = 0.0  # when it took a part of them

    def end(self, is_midway: bool) -> None:
        """What was written is still sent. While a client is in the middle of its request, what it
        sends is read, and passed over: else a reset would overtake the answer."""
        transport = self._transport
        if not is_midway:
            transport.close()
            return
        self.ends_since = self._loop.time()
        if transport.can_write_eof():  # not with TLS; but the answer says that it was the last
            with contextlib.suppress(OSError, RuntimeError):  # it was closed at the other end
                transport.write_eof()

    def tick(self, now: float, is_paused: bool) -> bool:
        """Whether the connection is about to end."""
        transport = self._transport
        is_closing = transport.is_closing()
        if (is_closing or is_paused or self.unsent) and self._takes_nothing(now):
            transport.abort()
        elif is_closing:
            self._end_for_good(now)
        elif self.ends_since is None:
            return False
        elif now - self.ends_since > _SECONDS_TO_LINGER:
            transport.close()
        return True

    def _takes_nothing(self, now: float) -> bool:
        """Or next to nothing, for too long."""
        unsent = self._transport.get_write_buffer_size()
        took = self.unsent - unsent
        if not unsent or not self.unsent or took < 0 or took >= _TAKEN_AT_LEAST:
            self.unsent, self.unsent_since = unsent, now
        return now - self.unsent_since > self._answer_seconds

    def _end_for_good(self, now: float) -> None:
        """With TLS, the end is agreed upon; a client that is idle may not hear of it for long."""
        if self.unsent or self._agreeing_since is None:
            self._agreeing_since = now
        elif now - self._agreeing_since > _SECONDS_TO_AGREE:
            self._transport.abort()
