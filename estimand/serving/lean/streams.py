"""One call on a connection, and the tables of what can be called."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from estimand.serving.lean.frames import FIRST_WINDOW
from estimand.serving.lean.headers import Metadata, RequestHead
from estimand.serving.status import StatusError

Deadline = float | None  # a time of the event loop


@dataclass(frozen=True)
class Unary:
    """Bytes of the request, its deadline, and how to read its metadata; bytes of the answer.

    With `start` it is not awaited: that is given the bytes, the deadline, and a reply that is told
    the answer. `is_open`: whoever asks is answered.
    """

    call: Callable[[bytes, Deadline, Callable[[], Metadata]], Awaitable[bytes]] | None = None
    start: Callable[[bytes, Deadline, Any], None] | None = None
    is_open: bool = False


@dataclass(frozen=True)
class Streaming:
    """The same, with several answers."""

    call: Callable[[bytes, Deadline, Callable[[], Metadata]], AsyncIterator[bytes]]
    start: None = None
    is_open: bool = False


class Stream:
    """A call from its headers to the end of its answer; as a reply, it is told the answer."""

    __slots__ = (
        "body",
        "calls",
        "deadline",
        "ended",
        "expected",
        "gone",
        "head_is_sent",
        "held",
        "id",
        "is_ready",
        "large_request",
        "request_head",
        "task",
        "timer",
        "touched",
        "trailers",
        "unsent",
        "window_in",
        "window_out",
    )

    def __init__(self, number: int, head: RequestHead, window_out: int, now: float) -> None:
        self.id = number
        self.request_head = head
        self.touched = now
        self.gone = False  # nothing of it may be sent any more
        self.calls: Any = None  # those that it is one of

        # The request
        self.ended = False
        self.body: bytearray | None = None  # if it comes in several frames
        self.expected = 0  # bytes of the message with its prefix, once known
        self.window_in = FIRST_WINDOW
        self.held = 0  # bytes of memory that it has without asking
        self.large_request: Any = None  # in the room for large requests, if it is one

        # The answer
        self.task: asyncio.Task[None] | None = None
        self.deadline: Deadline = None
        self.timer: Any = None
        self.window_out = window_out
        self.head_is_sent = False
        self.is_ready = False  # it has something to send, and a window
        self.unsent: deque[memoryview] | None = None
        self.trailers: bytes | None = None

    @property
    def client(self) -> Any:
        return self.calls

    def succeed(self, message: bytes) -> None:
        self.calls.answer(self, message)

    def fail(self, error: StatusError) -> None:
        self.calls.fail(self, error)
