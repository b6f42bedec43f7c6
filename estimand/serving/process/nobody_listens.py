"""While no worker takes connections, they are ended at once: nobody waits for who may not come.

The sockets go on listening when the workers that took from them are gone, and the kernel goes on
connecting clients. Without this they would wait, until a worker comes or their patience ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Iterable

_AT_ONCE = struct.pack("ii", 1, 0)  # SO_LINGER: with a reset
_MOST_AT_A_TIME = 256


class NobodyListens:
    """Of sockets that listen. Lives in the event loop."""

    def __init__(self, sockets: Iterable[socket.socket | None]) -> None:
        self._sockets = [listening for listening in sockets if listening is not None]
        self._holds = False

    def is_so(self, holds: bool) -> None:
        if holds == self._holds:
            return
        self._holds = holds
        loop = asyncio.get_running_loop()
        for listening in self._sockets:
            if holds:
                listening.setblocking(False)
                loop.add_reader(listening, _send_away, listening)
            else:
                loop.remove_reader(listening)


def _send_away(listening: socket.socket) -> None:
    with contextlib.suppress(OSError):  # nobody is left, or has left already
        for _ in range(_MOST_AT_A_TIME):
            connection, _ = listening.accept()
            with connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
