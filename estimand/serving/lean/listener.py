"""Sockets, and the end of everything.

>>> async def shout(body, deadline, metadata):
...     return body.upper()
>>> async def main():
...     server = LeanServer({"/demo.Echo/Shout": Unary(shout)})
...     port = await server.listen("127.0.0.1", 0)
...     await server.stop(1.0)
...     return port > 0
>>> asyncio.run(main())
True
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import socket
import ssl
import stat
import sys
from collections.abc import Mapping
from typing import Any

from estimand.serving.access.connection_limits import ConnectionLimits
from estimand.serving.access.request_memory import RequestMemory
from estimand.serving.access.tls_acceptor import TlsAcceptor
from estimand.serving.lean.connection import Connection
from estimand.serving.lean.frames import Code
from estimand.serving.lean.limits import Limits
from estimand.serving.lean.shared import Admission, Shared
from estimand.serving.lean.streams import Streaming, Unary

_BACKLOG = 2048


class LeanServer:
    """Serves a table of paths. To be made inside a running event loop."""

    def __init__(
        self,
        table: Mapping[str, Unary | Streaming],
        limits: Limits | None = None,
        tick_seconds: float = 1.0,
        memory: RequestMemory | None = None,
        connection_limits: ConnectionLimits | None = None,
        admission: Admission | None = None,
    ) -> None:
        known = {path.encode(): method for path, method in table.items()}
        self._shared = Shared(known, limits or Limits(), memory, connection_limits, admission)
        self._tick_seconds = tick_seconds
        self._listening: list[asyncio.AbstractServer | TlsAcceptor] = []
        self._paths: list[str] = []
        self._timer: asyncio.TimerHandle | None = None
        self._tick()

    @property
    def connections(self) -> int:
        return len(self._shared.connections)

    async def listen(
        self,
        host: str,
        port: int,
        tls: ssl.SSLContext | None = None,
        reuse_port: bool = False,
    ) -> int:
        """The port, which the system chooses if it is 0."""
        if tls is not None:
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            return await self.listen_on(socket.create_server((host, port), family=family), tls)
        server = await self._shared.loop.create_server(
            functools.partial(Connection, self._shared),
            host,
            port,
            backlog=_BACKLOG,
            reuse_port=reuse_port or None,
        )
        self._listening.append(server)
        bound: int = server.sockets[0].getsockname()[1]
        return bound

    async def listen_unix(self, path: str, tls: ssl.SSLContext | None = None) -> None:
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISSOCK(os.stat(path).st_mode):
                os.unlink(path)  # of a server that was killed
        end = socket.socket(socket.AF_UNIX)
        try:
            end.bind(path)
        except OSError:
            end.close()
            raise
        await self.listen_on(end, tls)
        self._paths.append(path)

    async def listen_on(self, end: socket.socket, tls: ssl.SSLContext | None = None) -> int:
        """On a socket that is bound, and that others may share. Its port, if it has one."""
        make = functools.partial(Connection, self._shared)
        loop = self._shared.loop
        if tls is not None:
            tls.set_alpn_protocols(["h2"])
            self._listening.append(
                TlsAcceptor(end, tls, self._shared.connection_limits, make, _BACKLOG)
            )
        elif end.family == getattr(socket, "AF_UNIX", None):
            # Its path stays for the others; from Python 3.13 on, asyncio would delete it.
            more: Any = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
            server = await loop.create_unix_server(make, sock=end, backlog=_BACKLOG, **more)
            self._listening.append(server)
        else:
            self._listening.append(await loop.create_server(make, sock=end, backlog=_BACKLOG))
        name = end.getsockname()
        return int(name[1]) if isinstance(name, tuple) else 0

    async def stop(self, grace: float) -> None:
        """No new connections and calls; those that run have `grace` seconds to end."""
        self._shared.is_ending = True  # some were taken already, and come now
        for server in self._listening:
            server.close()
        for path in self._paths:
            with contextlib.suppress(OSError):
                os.unlink(path)
        for connection in list(self._shared.connections):
            connection.lifetime.drain()
        await self._until_empty(grace)
        for connection in list(self._shared.connections):
            connection.lifetime.close(Code.NO_ERROR, "the server ends")
        await self._until_empty(self._shared.limits.close_seconds)
        for connection in list(self._shared.connections):
            connection.transport.abort()
        if self._timer is not None:
            self._timer.cancel()

    async def _until_empty(self, seconds: float) -> None:
        ends = self._shared.loop.time() + seconds
        while self._shared.connections and self._shared.loop.time() < ends:
            await asyncio.sleep(0.01)

    def _tick(self) -> None:
        shared = self._shared
        shared.now = shared.loop.time()
        shared.memory.tick(shared.now)
        for connection in list(shared.connections):
            connection.lifetime.tick(shared.now)
        shared.forget_answers()
        self._timer = shared.loop.call_later(self._tick_seconds, self._tick)
