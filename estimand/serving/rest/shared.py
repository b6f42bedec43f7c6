"""What all connections of a REST server have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from estimand.serving.access.connection_limits import MOST, ConnectionLimits
from estimand.serving.access.request_memory import RequestMemory
from estimand.serving.flags import Flags
from estimand.serving.rest.exchange import Exchange
from estimand.serving.rest.heads import Heads
from estimand.serving.rest.outgoing import Outgoing

# Where several ask, one of them may well be heard twice in a row, but not as often as this.
_ALONE_AFTER = 32


@dataclass(frozen=True)
class RestLimits:
    header_seconds: float = 10.0  # from the connection, or the first byte, to the last header
    header_bytes: int = 65_536  # of the first line and the headers
    body_bytes: int = 2**30
    idle_seconds: float = 60.0  # between two requests
    answer_seconds: float = 120.0  # in which a part of an answer must be taken
    connections: int = MOST  # of one address

    @classmethod
    def of(cls, flags: Flags) -> RestLimits:
        return cls(
            flags.rest_api_header_timeout_seconds,
            flags.rest_api_max_header_bytes,
            flags.rest_api_max_body_bytes,
            max(1.0, flags.rest_api_idle_timeout_seconds),
        )


class Peer(Protocol):
    """A connection, as the server sees it."""

    @property
    def outgoing(self) -> Outgoing: ...

    def tick(self, now: float) -> None: ...

    def end_soon(self) -> None: ...

    def abort(self) -> None: ...


@dataclass(eq=False)
class Shared:
    """`start` begins what answers an exchange; `tick` is called about once a second."""

    loop: asyncio.AbstractEventLoop
    start: Callable[[Exchange], None]
    limits: RestLimits
    memory: RequestMemory
    connection_limits: ConnectionLimits = field(default_factory=lambda: ConnectionLimits(MOST))
    heads: Heads = field(default_factory=Heads)
    connections: set[Peer] = field(default_factory=set)
    is_ending: bool = False  # nobody may come any more
    # Who was the last to ask something of a model, and how often since another did.
    last_asker: Peer | None = None
    asked_in_a_row: int = 0

    def asks_alone(self, connection: Peer) -> bool:
        """To be called with each that asks: whether nobody comes whom it would be worth to wait
        for."""
        if connection is self.last_asker:
            self.asked_in_a_row += 1
            return self.asked_in_a_row > _ALONE_AFTER
        self.last_asker = connection
        self.asked_in_a_row = 1
        return False

    def tick(self, now: float) -> None:
        self.heads.tick()
        self.memory.tick(now)
        for connection in list(self.connections):
            connection.tick(now)
        self._forget_answers()

    def _forget_answers(self) -> None:
        """Those that are not taken fill the memory: all together may be as much as requests."""
        waiting = [connection for connection in self.connections if connection.outgoing.unsent]
        unsent = sum([connection.outgoing.unsent for connection in waiting])
        waiting.sort(key=lambda connection: connection.outgoing.unsent_since, reverse=True)
        while unsent > self.memory.limit:
            slowest = waiting.pop()
            unsent -= slowest.outgoing.unsent
            slowest.abort()
