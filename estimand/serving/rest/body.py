"""Bodies that do not come in one read: in time, and within the memory for large requests."""

from __future__ import annotations

import asyncio
from typing import Protocol

from estimand.serving.access.request_memory import ConnectionShare, LargeRequest, RequestMemory
from estimand.serving.status import NUMBERS, StatusError

_COMES_WITHOUT_ASKING = 65_536  # bytes; as much as HTTP/2 has for a stream
# A body of more parts than this, with fewer bytes in each, costs more than it says.
_MOST_SMALL_PARTS, _SMALL_PART = 4096, 64

# A body or answer that is read and written in the event loop: some milliseconds, at the worst.
SMALL_BODY = 131_072  # bytes
SMALL_ANSWER = 32_768  # values, or bytes of strings


class BodyError(StatusError):
    """For which HTTP has a status of its own."""

    def __init__(self, name: str, text: str, http: int) -> None:
        super().__init__(NUMBERS[name], text)
        self._http = http

    @property
    def http(self) -> int:
        return self._http


def too_large(most: int) -> StatusError:
    text = f"The body is larger than {most} bytes."
    return BodyError("RESOURCE_EXHAUSTED", text, 413)


def is_scattered(parts: int, size: int) -> bool:
    """Whether a body comes in chunks that nobody would send who wants it to arrive."""
    return parts > _MOST_SMALL_PARTS and size < parts * _SMALL_PART


def scattered() -> StatusError:
    text = f"The body comes in chunks of less than {_SMALL_PART} bytes, and in too many of them."
    return BodyError("RESOURCE_EXHAUSTED", text, 413)


def client_is_gone() -> StatusError:
    return StatusError.of("CANCELLED", "The client closed the connection within its request.")


class Receiver(Protocol):
    """The connection that a body comes by."""

    def read_or_wait(self) -> None: ...

    def body_fails(self, error: StatusError) -> None: ...


class Arrival(LargeRequest):
    """A body on its way. Its connection is told when to go on reading, and how it failed."""

    __slots__ = ("_connection", "_held", "_memory", "_size", "_timer", "_whole_size")

    def __init__(
        self,
        connection: Receiver,
        share: ConnectionShare,
        memory: RequestMemory,
        whole_size: int,
        deadline: float,
    ) -> None:
        """`whole_size` is what it will have at most. StatusError if there is no room at all."""
        super().__init__(share)
        self._connection = connection
        self._memory = memory
        self._size = 0
        self._whole_size = whole_size
        self._held = min(whole_size, _COMES_WITHOUT_ASKING)
        self._timer = asyncio.get_running_loop().call_at(deadline, self._late)
        try:
            memory.hold(self._held)
        except StatusError:
            self.end()
            raise

    def has(self, size: int) -> None:
        """So many bytes have come in all."""
        grown, self._size = size - self._size, size
        if self.taken:
            self._memory.came(self, grown)
        if size >= _COMES_WITHOUT_ASKING and not self.promised and not self.asks:
            if not self.taken:
                self._memory.enter(self, max(1, self._whole_size - size))
            self._memory.ask(self, self.next_piece(self._memory.limit))

    def is_whole(self) -> None:
        self._timer.cancel()
        if self.taken:
            self._memory.is_whole(self)

    def end(self) -> None:
        """Its memory is free."""
        self._timer.cancel()
        self._memory.release(self._held)
        self._held = 0
        self._memory.leave(self)

    def may_send(self, size: int) -> None:
        self._connection.read_or_wait()

    def is_too_slow(self) -> None:
        self._connection.body_fails(_no_room("It came too slowly while others waited."))

    def _late(self) -> None:
        if self.asks:
            self._connection.body_fails(_no_room("There was no memory for it in time."))
            return
        text = "The body did not arrive in time."
        self._connection.body_fails(BodyError("DEADLINE_EXCEEDED", text, 408))


def _no_room(why: str) -> StatusError:
    return StatusError.of("RESOURCE_EXHAUSTED", f"The body did not arrive. {why}")
