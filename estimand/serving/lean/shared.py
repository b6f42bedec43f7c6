"""What the connections of a server have in common."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from estimand.serving.access.connection_limits import ConnectionLimits
from estimand.serving.access.request_memory import RequestMemory
from estimand.serving.lean.frames import Code
from estimand.serving.lean.headers import Header, RequestHead, judge
from estimand.serving.lean.limits import Limits
from estimand.serving.lean.sending import Sender


class PeerLifetime(Protocol):
    @property
    def unsent_since(self) -> float: ...

    def tick(self, now: float) -> None: ...

    def drain(self) -> None: ...

    def close(self, code: Code, text: str = "") -> None: ...


class Peer(Protocol):
    """A connection, as the server sees it."""

    transport: Any

    @property
    def sender(self) -> Sender: ...

    @property
    def lifetime(self) -> PeerLifetime: ...


class Admission(Protocol):
    """Whether who sends such headers may ask at all. The Tokens of a server are one."""

    def allow(self, headers: Sequence[Header], /) -> bool: ...

    def current(self) -> object:
        """What `allow` rests on: another object when it may answer otherwise."""


class Shared:
    """`now` moves with every tick."""

    def __init__(
        self,
        table: Mapping[bytes, Any],
        limits: Limits,
        memory: RequestMemory | None = None,
        connection_limits: ConnectionLimits | None = None,
        admission: Admission | None = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.limits = limits
        self.now = self.loop.time()
        self.memory = memory or RequestMemory(limits.pending_bytes)
        self.connection_limits = connection_limits or ConnectionLimits(limits.connections)
        self.admission = admission
        self.connections: set[Peer] = set()
        self.is_ending = False  # nobody may come any more
        self.judge: Callable[[Sequence[Header]], RequestHead] = functools.partial(
            judge, table=table, most_bytes=limits.header_bytes
        )

    def forget_answers(self) -> None:
        """Those that are not taken fill the memory: all together may be as much as requests."""
        waiting = [connection for connection in self.connections if connection.sender.unsent]
        unsent = sum([connection.sender.unsent for connection in waiting])
        if unsent <= self.limits.pending_bytes:
            return
        waiting.sort(key=lambda connection: connection.lifetime.unsent_since, reverse=True)
        while unsent > self.limits.pending_bytes:
            slowest = waiting.pop()
            unsent -= slowest.sender.unsent
            slowest.transport.abort()
