"""Who has connected and not yet agreed upon TLS is counted, and forgotten when it is gone."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

from estimand.serving.access.connection_limits import ConnectionLimits
from estimand.serving.access.tls_acceptor import TlsAcceptor
from tests.serving import certificates


class Said(asyncio.Protocol):
    """Says hello, and leaves when its client does."""

    def __init__(self, connection_limits: ConnectionLimits, address: Any) -> None:
        self._connection_limits = connection_limits
        self._address = address

    def connection_made(self, transport: Any) -> None:
        transport.write(b"hello")

    def connection_lost(self, error: Exception | None) -> None:
        self._connection_limits.release(self._address)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


def test_handshakes_that_never_come_have_their_share(tmp_path: Path) -> None:
    certificates.write_authority(tmp_path, "ca")
    certificates.write_certificate(tmp_path, "server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    asking.check_hostname, asking.verify_mode = False, ssl.CERT_NONE

    async def hello(port: int, host: str) -> bytes:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, local_addr=(host, 0), ssl=asking
            )
            told = await reader.read(5)
            writer.close()
            return told
        return b""

    async def main() -> None:
        connection_limits = ConnectionLimits(3)
        listening = socket.create_server(("127.0.0.1", 0))
        port = listening.getsockname()[1]
        acceptor = TlsAcceptor(
            listening,
            context,
            connection_limits,
            lambda address: Said(connection_limits, address),
            10,
        )
        silent = [socket.create_connection(("127.0.0.1", port), 20) for _ in range(3)]
        await until(lambda: connection_limits._count == 3)
        assert await hello(port, "127.0.0.1") == b""
        assert await hello(port, "127.0.0.2") == b"hello"  # from where nobody is yet
        for client in silent:
            client.close()
        await until(lambda: connection_limits._count == 0)
        assert await hello(port, "127.0.0.1") == b"hello"
        await until(lambda: connection_limits._count == 0)
        acceptor.close()
        await until(lambda: listening.fileno() < 0)

    asyncio.run(main())


def test_an_acceptor_that_closes_waits_for_no_handshake() -> None:
    async def main() -> None:
        connection_limits = ConnectionLimits(3)
        listening = socket.create_server(("127.0.0.1", 0))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        acceptor = TlsAcceptor(
            listening,
            context,
            connection_limits,
            lambda address: Said(connection_limits, address),
            10,
        )
        with socket.create_connection(listening.getsockname(), 20):
            await until(lambda: connection_limits._count == 1)
            (coming,) = acceptor._coming
            acceptor.close()
            assert coming.cancelling()
            await until(lambda: coming.done())
            assert not connection_limits._count

    asyncio.run(main())
