"""Bodies of REST requests as they arrive, within the room for large requests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from estimand.serving.access.room import Guest, Party, Room
from estimand.serving.status import StatusError

_COMES_WITHOUT_ASKING = 65_536  # bytes; as much as HTTP/2 has for a stream


# A body or answer that is read and written in the event loop: some milliseconds, at the worst.
SMALL_BODY = 131_072  # bytes
SMALL_ANSWER = 32_768  # values, or bytes of strings


class TooLarge(Exception):
    """The body is larger than allowed."""


class ClientGone(Exception):
    """It closed the connection before its request was whole."""


class Arrivals:
    """Reads bodies of at most so many bytes."""

    def __init__(self, room: Room, most: int) -> None:
        self._room = room
        self._most = most

    @contextlib.asynccontextmanager
    async def body(
        self, scope: Any, receive: Any, deadline: float
    ) -> AsyncIterator[bytes | bytearray]:
        """The whole body; its memory counts until the block ends.

        TooLarge, ClientGone, TimeoutError if it does not come in time, StatusError if there is
        no room.
        """
        declared = self._declared(scope)
        message = await receive()
        first = message.get("body", b"")
        if message["type"] == "http.disconnect":
            raise ClientGone
        if not message.get("more_body"):
            yield first
            return
        guest = _Arriving(scope.get("estimand.party") or Party())
        held = min(self._most, _COMES_WITHOUT_ASKING)
        try:
            self._room.hold(held)
            yield await self._rest(first, receive, deadline, guest, declared or self._most)
        finally:
            self._room.release(held)
            self._room.leave(guest)

    def _declared(self, scope: Any) -> int:
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit():
                if len(value) > 18 or int(value) > self._most:
                    raise TooLarge
                return int(value)
        return 0

    async def _rest(
        self, first: bytes, receive: Any, deadline: float, guest: _Arriving, expected: int
    ) -> bytearray:
        body = bytearray(first)
        try:
            async with asyncio.timeout_at(deadline) as guest.timer:
                while True:
                    if len(body) >= _COMES_WITHOUT_ASKING and not guest.promised:
                        await self._more(guest, expected - len(body))
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientGone
                    part = message.get("body", b"")
                    body += part
                    if len(body) > self._most:
                        raise TooLarge
                    if guest.taken:
                        self._room.came(guest, len(part))
                    if not message.get("more_body"):
                        self._room.is_whole(guest)
                        return body
        except TimeoutError:
            if guest.asks:
                raise _no_room("There was no memory for it in time.") from None
            if guest.is_slow:
                raise _no_room("It came too slowly while others waited.") from None
            raise

    async def _more(self, guest: _Arriving, missing: int) -> None:
        if not guest.taken:
            self._room.enter(guest, max(1, missing))
        guest.allowed.clear()
        self._room.ask(guest, guest.next_piece(self._room.limit))
        await guest.allowed.wait()


class _Arriving(Guest):
    __slots__ = ("allowed", "is_slow", "timer")

    def __init__(self, party: Party) -> None:
        super().__init__(party)
        self.allowed = asyncio.Event()
        self.is_slow = False
        self.timer: Any = None

    def may_send(self, size: int) -> None:
        self.allowed.set()

    def is_too_slow(self) -> None:
        self.is_slow = True
        self.timer.reschedule(asyncio.get_running_loop().time())


def _no_room(why: str) -> StatusError:
    return StatusError.of("RESOURCE_EXHAUSTED", f"The body did not arrive. {why}")
