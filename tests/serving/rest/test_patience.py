"""How long a connection is kept, for whom, and with how much that was written to it."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from estimand.serving.access.request_memory import RequestMemory
from estimand.serving.rest.exchange import Exchange
from estimand.serving.rest.listener import RestServer
from estimand.serving.rest.shared import RestLimits
from tests.serving import certificates

LARGE = 16 * 2**20  # more than sockets hold
LIMITS = RestLimits(
    header_seconds=0.5, header_bytes=2000, idle_seconds=0.5, answer_seconds=1.0, connections=40
)


def start(exchange: Exchange) -> None:
    """/large has a large answer; /later comes after more than the patience with the idle."""
    if exchange.target == b"/large":
        exchange.answer(200, b"x" * LARGE)
    elif exchange.target == b"/refused":
        exchange.answer(413, b"too large")
    elif exchange.target == b"/later":
        asyncio.get_running_loop().call_later(1.5, exchange.answer, 200, b"later")
    else:
        exchange.answer(200, b"now")


class Running:
    """A server in a thread of its own."""

    def __init__(
        self, limits: RestLimits, memory: RequestMemory, tls: ssl.SSLContext | None = None
    ) -> None:
        self._tls = tls
        self._ready = threading.Event()
        self._thread = threading.Thread(target=asyncio.run, args=(self._main(limits, memory),))
        self._thread.start()
        assert self._ready.wait(20)

    async def _main(self, limits: RestLimits, memory: RequestMemory) -> None:
        self.server = RestServer(start, limits, memory, tick_seconds=0.05)
        listening = socket.create_server(("127.0.0.1", 0))
        self.port = listening.getsockname()[1]
        await self.server.listen_on(listening, self._tls)
        self._loop, self._end = asyncio.get_running_loop(), asyncio.Event()
        self._ready.set()
        await self._end.wait()
        await self.server.stop(0.1)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._end.set)
        self._thread.join(20)

    def connect(self) -> socket.socket:
        client = socket.socket()
        client.settimeout(20)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**17)  # else it takes much unasked
        client.connect(("127.0.0.1", self.port))
        return client

    def is_left(self, seconds: float = 20.0) -> bool:
        """Whether nobody is connected any more, now or soon."""
        ends = time.monotonic() + seconds
        while self.server.shared.connections and time.monotonic() < ends:
            time.sleep(0.02)
        return not self.server.shared.connections


@pytest.fixture
def running() -> Iterator[Running]:
    made = Running(LIMITS, RequestMemory(2**30))
    yield made
    made.stop()


def get(path: str, more: str = "") -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: x\r\n{more}\r\n".encode()


def all_of(client: socket.socket, pause: float = 0.0) -> bytes:
    found = b""
    while part := client.recv(2**18 if pause else 2**20):
        found += part
        time.sleep(pause)
    return found


@pytest.mark.parametrize("more", ["", "connection: close\r\n"], ids=["goes on", "close"])
def test_who_takes_nothing_of_an_answer_is_left(running: Running, more: str) -> None:
    with running.connect() as client:
        client.sendall(get("/large", more))
        assert running.is_left()


@pytest.mark.parametrize("more", ["", "connection: close\r\n"], ids=["goes on", "close"])
def test_who_takes_an_answer_slowly_gets_all_of_it(running: Running, more: str) -> None:
    """In more time than he has for a part."""
    with running.connect() as client:
        client.sendall(get("/large", more))
        began = time.monotonic()
        found = all_of(client, pause=0.05)
    assert found.endswith(b"x" * LARGE)
    assert time.monotonic() - began > 2 * LIMITS.answer_seconds


def test_answers_that_are_not_taken_are_no_more_than_there_is_room_for() -> None:
    patient = RestLimits(answer_seconds=1000.0)
    running = Running(patient, RequestMemory(LARGE * 5 // 2))  # the kernel holds up to 4 MB of each
    clients = [running.connect() for _ in range(6)]
    try:
        for client in clients:
            client.sendall(get("/large"))
            time.sleep(0.1)
        ends = time.monotonic() + 20
        while len(running.server.shared.connections) > 3 and time.monotonic() < ends:
            time.sleep(0.02)
        left = len(running.server.shared.connections)
        assert 1 <= left <= 3
        clients[-1].sendall(get("/large", "connection: close\r\n"))
        assert all_of(clients[-1]).count(b"x" * LARGE) == 2  # who came last is still served
    finally:
        for client in clients:
            client.close()
        running.stop()


def test_a_request_behind_another_is_not_idle(running: Running) -> None:
    with running.connect() as client:
        client.sendall(get("/now") + get("/later") + get("/later", "connection: close\r\n"))
        found = all_of(client)
    assert found.count(b"later") == 2


@pytest.mark.parametrize(
    "asked",
    [get("/later"), get("/later") * 2, get("/large") + get("/later"), get("/later") + b"GET /no"],
    ids=["one", "two", "after a large one", "and a half"],
)
def test_who_only_asks_no_more_gets_all_answers(running: Running, asked: bytes) -> None:
    """As nc does at the end of its input."""
    with running.connect() as client:
        client.sendall(asked)
        client.shutdown(socket.SHUT_WR)
        time.sleep(0.1)
        found = all_of(client)
    assert found.count(b"HTTP/1.1 200 OK") == asked.count(b"\r\n\r\n")
    assert found.endswith(b"connection: close\r\n\r\nlater")
    assert running.is_left()


def test_who_leaves_later_than_with_its_request_has_given_up(running: Running) -> None:
    with running.connect() as client:
        client.sendall(get("/later"))
        time.sleep(1.2)
        client.shutdown(socket.SHUT_WR)
        assert all_of(client) == b""


def test_headers_that_wait_for_an_answer_before_them_are_not_late(running: Running) -> None:
    """The server does not look at them before."""
    many = get("/later") + get("/now", "x: " + "y" * 1000 + "\r\n") * 100
    with running.connect() as client:
        client.sendall(many + get("/now", "connection: close\r\n"))
        found = all_of(client)
    assert found.count(b"HTTP/1.1 200 OK") == 102, found[-300:]


def test_headers_behind_other_requests_are_counted_alone(running: Running) -> None:
    """A part of them comes with some thousand bytes that are not theirs."""
    many = get("/now", "x: " + "y" * 200 + "\r\n") * 50
    last = get("/now", "x: " + "y" * 200 + "\r\nconnection: close\r\n")
    with running.connect() as client:
        client.sendall(many + last[:-40])
        time.sleep(0.1)
        client.sendall(last[-40:-20])
        time.sleep(0.1)
        client.sendall(last[-20:])
        found = all_of(client)
    assert found.count(b"HTTP/1.1 200 OK") == 51, found[-300:]


def test_what_nobody_asked_for_is_not_kept(running: Running) -> None:
    """A body, of a request that has no use for it."""
    with running.connect() as client:
        client.sendall(get("/later", "content-length: 100000000\r\n") + b"x" * 2**22)
        ends = time.monotonic() + 20
        while not (connections := list(running.server.shared.connections)):
            assert time.monotonic() < ends
        time.sleep(0.5)
        assert connections[0].reader.exchange is not None
        assert len(connections[0].reader.exchange.body) <= 2**16


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder: Path = tmp_path_factory.mktemp("keys")
    certificates.write_authority(folder, "ca")
    certificates.write_certificate(folder, "server")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "server.crt", folder / "server.key")
    made = Running(LIMITS, RequestMemory(2**30), tls)
    yield made
    made.stop()


def with_tls(running: Running) -> ssl.SSLSocket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(running.connect())


def test_with_tls_too_a_refused_client_hears_it_though_it_goes_on_sending(
    secured: Running,
) -> None:
    for _ in range(5):
        with with_tls(secured) as client:
            client.sendall(get("/refused", "content-length: 100000000\r\n"))
            for _ in range(16):
                client.sendall(bytes(2**16))
                time.sleep(0.01)
            assert client.recv(2**16).startswith(b"HTTP/1.1 413 ")


def test_with_tls_too_who_asks_for_the_end_gets_it(secured: Running) -> None:
    with with_tls(secured) as client:
        client.sendall(get("/now", "connection: close\r\n"))
        assert all_of(client).endswith(b"now")
    assert secured.is_left()
