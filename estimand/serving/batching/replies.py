"""Who waits for an answer: a stream, an exchange of a REST connection, or whoever awaits a promise.

Tasks and futures of asyncio cost as much as all else that is done for a small request. So an
answer is asked for with a call, and told with another; what has to be awaited is a `Promise`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic, Protocol, TypeVar

from estimand.serving.status import StatusError

T = TypeVar("T")
Told = TypeVar("Told", contravariant=True)

_running: set[asyncio.Task[Any]] = set()


class Reply(Protocol[Told]):
    """`gone`: nobody waits any more. `client`: who it is that asks, for those who take turns."""

    @property
    def gone(self) -> bool: ...

    @property
    def client(self) -> Any: ...

    def succeed(self, answer: Told, /) -> None: ...

    def fail(self, error: StatusError, /) -> None: ...


class Promise(Generic[T]):
    """A reply that can be awaited, by its `future`."""

    def __init__(self, client: Any = None) -> None:
        self.future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.client = client

    @property
    def gone(self) -> bool:
        return self.future.done()

    def succeed(self, answer: T) -> None:
        if not self.future.done():
            self.future.set_result(answer)

    def fail(self, error: StatusError) -> None:
        if not self.future.done():
            self.future.set_exception(error)


def run_beside(work: Coroutine[Any, Any, None]) -> None:
    """For what cannot be done with a call. The event loop alone would forget it."""
    task = asyncio.get_running_loop().create_task(work)
    _running.add(task)
    task.add_done_callback(_running.discard)
