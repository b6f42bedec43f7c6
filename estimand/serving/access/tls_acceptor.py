"""Connections with TLS are taken here, and not by asyncio: they count before TLS is agreed upon.

A client that connects and says nothing would else hold a descriptor that nobody knows of.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any

from estimand.serving.access.connection_limits import ConnectionLimits

log = logging.getLogger("estimand.serving")

_HANDSHAKE_SECONDS = 10.0
_PAUSE_SECONDS = 0.1  # when the system has no more descriptors


class TlsAcceptor:
    """Of a socket, on which other processes may listen too. `make` makes the protocol of one that
    has come in, from what `ConnectionLimits.release` is to be given when it leaves."""

    def __init__(
        self,
        listening: socket.socket,
        context: ssl.SSLContext,
        connection_limits: ConnectionLimits,
        make: Callable[[Any], asyncio.Protocol],
        backlog: int,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._socket = listening
        self._context = context
        self._connection_limits = connection_limits
        self._make = make
        self._coming: set[asyncio.Task[None]] = set()
        listening.setblocking(False)
        listening.listen(backlog)
        self._taking = self._loop.create_task(self._take_all(), name="TLS")

    def close(self) -> None:
        """Who has agreed upon TLS stays."""
        self._taking.cancel()
        for coming in self._coming:
            coming.cancel()

    async def _take_all(self) -> None:
        with self._socket:
            while True:
                try:
                    connection, peer = await self._loop.sock_accept(self._socket)
                except ConnectionAbortedError:
                    continue
                except OSError as error:
                    log.error("A connection cannot be taken: %s", error)
                    await asyncio.sleep(_PAUSE_SECONDS)
                    continue
                self._take(connection, peer)

    def _take(self, connection: socket.socket, peer: Any) -> None:
        address = self._connection_limits.admit(peer)
        if address is None:
            connection.close()
            return
        task = self._loop.create_task(self._agree(connection, address))
        self._coming.add(task)
        task.add_done_callback(self._coming.discard)

    async def _agree(self, connection: socket.socket, address: Any) -> None:
        is_in = False
        try:
            with contextlib.suppress(OSError):  # ssl.SSLError and TimeoutError are some
                await self._loop.connect_accepted_socket(
                    lambda: self._make(address),
                    connection,
                    ssl=self._context,
                    ssl_handshake_timeout=_HANDSHAKE_SECONDS,
                )
                is_in = True
        finally:
            if not is_in:
                self._connection_limits.release(address)
