"""Two processes that ask each other things: calls by name, as JSON lines over a socket.

>>> import socket
>>> async def main():
...     async def add(numbers):
...         return sum(numbers)
...     left, right = socket.socketpair()
...     async with WorkerConnection(left, {}) as asking, WorkerConnection(right, {"add": add}):
...         return await asking.call("add", [1, 2])
>>> asyncio.run(main())
3
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from estimand.serving.status import StatusError, from_exception

log = logging.getLogger("estimand.serving")
_LONGEST = 256 * 2**20

Handler = Callable[[Any], Awaitable[Any]]


class WorkerConnection:
    """One end. `async with` opens it; `closed` is set when the other end is gone, and `heard` is
    when it said something last, as a time of `time.monotonic`."""

    def __init__(self, end: socket.socket, handlers: Mapping[str, Handler]) -> None:
        self._end = end
        self._handlers = handlers
        self._numbers = itertools.count()
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._running: set[asyncio.Task[None]] = set()
        self.closed = asyncio.Event()
        self.heard = time.monotonic()

    async def __aenter__(self) -> WorkerConnection:
        self._end.setblocking(False)
        self._reader, self._writer = await asyncio.open_connection(sock=self._end, limit=_LONGEST)
        self._task = asyncio.create_task(self._read(), name="worker connection")
        return self

    async def __aexit__(self, *_: object) -> None:
        self._task.cancel()
        for task in self._running:
            task.cancel()
        await asyncio.gather(self._task, *self._running, return_exceptions=True)
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    async def call(self, name: str, value: Any = None) -> Any:
        """What the other end answers; its StatusError, or UNAVAILABLE when it is gone."""
        if self.closed.is_set():
            raise _gone()
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        try:
            await self._send({"call": name, "number": number, "value": value})
            return await answer
        finally:
            del self._answers[number]

    async def _send(self, message: dict[str, Any]) -> None:
        try:
            self._writer.write(json.dumps(message).encode() + b"\n")
            await self._writer.drain()
        except (OSError, RuntimeError) as error:
            raise _gone() from error

    async def _read(self) -> None:
        try:
            with contextlib.suppress(OSError):
                while line := await self._reader.readline():
                    self.heard = time.monotonic()
                    self._take(json.loads(line))
        finally:
            self.closed.set()
            for answer in self._answers.values():
                if not answer.done():
                    answer.set_exception(_gone())

    def _take(self, message: dict[str, Any]) -> None:
        if "call" in message:
            task = asyncio.create_task(self._handle(message))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
            return
        answer = self._answers.get(message["number"])
        if answer is None or answer.done():  # nobody waits for it any more
            return
        if "code" in message:
            answer.set_exception(StatusError(message["code"], message["text"]))
        else:
            answer.set_result(message["value"])

    async def _handle(self, message: dict[str, Any]) -> None:
        answer: dict[str, Any] = {"number": message["number"]}
        try:
            answer["value"] = await self._handlers[message["call"]](message["value"])
        except Exception as error:
            status = from_exception(error)
            answer |= {"code": status.code, "text": status.text}
        with contextlib.suppress(StatusError):
            await self._send(answer)


def _gone() -> StatusError:
    return StatusError.of("UNAVAILABLE", "The other process has ended.")
