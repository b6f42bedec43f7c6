"""Who is next: connections take turns, so that one with many large bodies is not before all others.

A body waits here within its time. There may be so many, and then the next is refused at once.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from estimand.serving.large_json.process import Process
from estimand.serving.large_json.work import Budget
from estimand.serving.status import StatusError, deadline_exceeded, overloaded

_MOST_WAITING = 256
_IDLE_SECONDS = 60.0


class LargeJson:
    """Lives in the event loop; the process, and the thread that speaks with it, come when there is
    something to do, and the process goes when there was nothing for a minute."""

    def __init__(self, budget: Budget, most_waiting: int = _MOST_WAITING) -> None:
        self.budget = budget
        self._process = Process(budget)
        self._thread = ThreadPoolExecutor(1, "estimand-json")
        self._most_waiting = most_waiting
        # By connection, in turn.
        self._waiting: OrderedDict[Any, deque[asyncio.Future[None]]] = OrderedDict()
        self._count = 0
        self._is_busy = False
        self._idle: asyncio.TimerHandle | None = None

    async def run(
        self,
        job: Any,
        body: Any,
        deadline: float,
        client: Any = None,
        is_gone: Callable[[], bool] = lambda: False,
    ) -> Any:
        """`deadline` is a time of the event loop; `is_gone`: whether nobody waits any more."""
        loop = asyncio.get_running_loop()
        await self._turn(client, deadline)
        try:
            if is_gone():
                raise StatusError.of("CANCELLED", "The client is gone.")
            ends = time.monotonic() + deadline - loop.time()
            return await asyncio.shield(
                loop.run_in_executor(self._thread, self._process.run, job, body, ends)
            )
        finally:
            self._next()

    async def _turn(self, client: Any, deadline: float) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if not self._is_busy:
            self._is_busy = True
            return
        if self._count >= self._most_waiting:
            raise overloaded(f"{self._count} large bodies wait to be read.", 1.0)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(turn)
        self._count += 1
        try:
            async with asyncio.timeout_at(deadline):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._next()  # it came too late for this one
            turn.cancel()
            if isinstance(error, TimeoutError):
                raise deadline_exceeded() from None
            raise

    def _next(self) -> None:
        while self._waiting:
            client, turns = next(iter(self._waiting.items()))
            del self._waiting[client]
            turn = turns.popleft()
            if turns:
                self._waiting[client] = turns  # behind all others
            self._count -= 1
            if not turn.done():
                turn.set_result(None)
                return
        self._is_busy = False
        self._idle = asyncio.get_running_loop().call_later(_IDLE_SECONDS, self._rest)

    def _rest(self) -> None:
        self._thread.submit(self._process.stop)

    def stop(self) -> None:
        self._process.stop()
        self._thread.shutdown(wait=False, cancel_futures=True)
