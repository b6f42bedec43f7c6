"""A server that ends: who comes too late, and what stays for others."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import tempfile
from typing import Any

import pytest

from estimand.serving.lean.connection import Connection as LeanConnection
from estimand.serving.lean.listener import LeanServer
from estimand.serving.rest.connection import Connection
from estimand.serving.rest.listener import RestServer


class Wire(asyncio.Transport):
    is_aborted = False

    def write(self, data: Any) -> None:
        raise AssertionError

    def is_closing(self) -> bool:
        return self.is_aborted

    def abort(self) -> None:
        self.is_aborted = True


@pytest.mark.parametrize("protocol", ["REST", "gRPC"])
def test_who_was_taken_before_the_end_and_comes_after_it_is_left(protocol: str) -> None:
    async def main() -> None:
        server: Any
        if protocol == "REST":
            server = RestServer(lambda _: None)
            shared, kind = server.shared, Connection
        else:
            server = LeanServer({})
            shared, kind = server._shared, LeanConnection
        await server.stop(0.0)
        late: Any = kind(shared)
        wire = Wire({"peername": ("127.0.0.1", 1)})
        late.connection_made(wire)
        assert wire.is_aborted and not shared.connections
        late.connection_lost(None)
        assert not shared.connection_limits._count

    asyncio.run(main())


@pytest.mark.skipif(sys.platform == "win32", reason="it has no such sockets")
def test_a_path_that_others_listen_on_stays() -> None:
    async def main(path: str) -> bool:
        server = LeanServer({})
        end = socket.socket(socket.AF_UNIX)
        end.bind(path)
        await server.listen_on(end)
        await server.stop(0.0)
        return os.path.exists(path)

    with tempfile.TemporaryDirectory() as folder:  # short enough for the name of a socket
        assert asyncio.run(main(os.path.join(folder, "s")))
