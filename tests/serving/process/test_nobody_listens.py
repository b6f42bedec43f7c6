"""Who connects while no worker is there."""

from __future__ import annotations

import asyncio
import contextlib
import socket

from estimand.serving.flags import Flags
from estimand.serving.process import workers
from estimand.serving.process.nobody_listens import NobodyListens
from estimand.serving.process.sockets import Sockets


def test_connections_are_ended_while_nobody_takes_them_and_wait_for_who_comes() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            loop = asyncio.get_running_loop()
            nobody = NobodyListens([listening, None])
            before = socket.create_connection(listening.getsockname(), 20)
            nobody.is_so(True)
            after = socket.create_connection(listening.getsockname(), 20)
            for client in (before, after):
                client.setblocking(False)
                with client, contextlib.suppress(ConnectionResetError):
                    assert await asyncio.wait_for(loop.sock_recv(client, 1), 20) == b""
            nobody.is_so(False)
            with socket.create_connection(listening.getsockname(), 20):
                taken, _ = await loop.sock_accept(listening)
                taken.close()

    asyncio.run(main())


def test_nobody_listens_when_the_last_worker_that_did_is_gone() -> None:
    async def main() -> None:
        supervisor = workers._Supervisor(Flags(num_workers=2), Sockets(), print, [])
        nobody = supervisor._nobody_listens
        for index in (0, 1):
            worker = supervisor._workers[index] = workers._Worker(index, None, replaces=False)
            supervisor._look_who_listens()
            assert not nobody._holds
            await supervisor._handlers(worker)["listening"](True)
        del supervisor._workers[0]
        supervisor._look_who_listens()
        assert not nobody._holds
        await supervisor._handlers(worker)["listening"](False)  # it drains
        assert nobody._holds

    asyncio.run(main())
