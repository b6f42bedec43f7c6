"""Sockets of the REST API, and the end of everything."""

from __future__ import annotations

import asyncio
import functools
import socket
import ssl
from collections.abc import Callable

from estimand.serving.access.connection_limits import ConnectionLimits
from estimand.serving.access.request_memory import RequestMemory
from estimand.serving.access.tls_acceptor import TlsAcceptor
from estimand.serving.rest.connection import Connection
from estimand.serving.rest.exchange import Exchange
from estimand.serving.rest.shared import RestLimits, Shared

_BACKLOG = 2048
_SECONDS_TO_CLOSE = 2.0


class RestServer:
    """To be made inside a running event loop. `start` begins what answers an exchange."""

    def __init__(
        self,
        start: Callable[[Exchange], None],
        limits: RestLimits | None = None,
        memory: RequestMemory | None = None,
        connection_limits: ConnectionLimits | None = None,
        tick_seconds: float = 1.0,
    ) -> None:
        loop = asyncio.get_running_loop()
        limits = limits or RestLimits()
        connection_limits = connection_limits or ConnectionLimits(limits.connections)
        self.shared = Shared(loop, start, limits, memory or RequestMemory(2**30), connection_limits)
        self._tick_seconds = tick_seconds
        self._listening: list[asyncio.AbstractServer | TlsAcceptor] = []
        self._timer: asyncio.TimerHandle | None = None
        self._tick()

    async def listen_on(self, end: socket.socket, tls: ssl.SSLContext | None = None) -> None:
        """On a socket that listens already, and that other processes may share."""
        make = functools.partial(Connection, self.shared)
        if tls is not None:
            self._listening.append(
                TlsAcceptor(end, tls, self.shared.connection_limits, make, _BACKLOG)
            )
            return
        create = self.shared.loop.create_server
        self._listening.append(await create(make, sock=end, backlog=_BACKLOG))

    async def stop(self, grace: float) -> None:
        """No new connections and requests; those that run have `grace` seconds to end."""
        self.shared.is_ending = True  # some were taken already, and come now
        for server in self._listening:
            server.close()
        for connection in list(self.shared.connections):
            connection.end_soon()
        await self._until_empty(grace)
        for connection in list(self.shared.connections):
            connection.abort()
        await self._until_empty(_SECONDS_TO_CLOSE)
        if self._timer is not None:
            self._timer.cancel()

    async def _until_empty(self, seconds: float) -> None:
        ends = self.shared.loop.time() + seconds
        while self.shared.connections and self.shared.loop.time() < ends:
            await asyncio.sleep(0.01)

    def _tick(self) -> None:
        shared = self.shared
        shared.tick(shared.loop.time())
        self._timer = shared.loop.call_later(self._tick_seconds, self._tick)
