"""Clients of REST that send little, slowly, too much, or nothing."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator

import pytest

from estimand.serving.flags import Flags
from estimand.serving.metrics import Metrics
from estimand.serving.rest.api import Api
from estimand.serving.rest.listener import RestServer
from estimand.serving.rest.shared import RestLimits
from estimand.serving.status import not_found


class NoModels:
    """A manager with nothing to serve."""

    models: dict[str, object] = {}  # noqa: RUF012
    is_ready = True
    requests = None

    def find(self, *_: object) -> None:
        raise not_found("there is none")


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The REST face with short patience, in a thread of its own."""
    ready = threading.Event()
    ports: list[int] = []
    ending: list[object] = []

    async def main() -> None:
        flags = Flags(rest_api_timeout_in_ms=500)
        limits = RestLimits(header_seconds=0.4, header_bytes=2000, idle_seconds=1.0, connections=40)
        api = Api(NoModels(), Metrics(), flags, lambda: True)
        server = RestServer(api.start, limits, tick_seconds=0.05)
        listening = socket.create_server(("127.0.0.1", 0))
        ports.append(listening.getsockname()[1])
        await server.listen_on(listening)
        loop, end = asyncio.get_running_loop(), asyncio.Event()
        ending.append(lambda: loop.call_soon_threadsafe(end.set))
        ready.set()
        await end.wait()
        await server.stop(1.0)

    thread = threading.Thread(target=asyncio.run, args=(main(),))
    thread.start()
    assert ready.wait(20)
    yield ports[0]
    ending[0]()
    thread.join(20)


def answer(port: int, *parts: bytes) -> bytes:
    """All that comes until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        for part in parts:
            client.sendall(part)
        found = b""
        while True:
            try:
                part = client.recv(65536)
            except ConnectionResetError:
                return found
            if not part:
                return found
            found += part


def test_a_connection_that_says_nothing_is_ended(port: int) -> None:
    assert answer(port).startswith(b"HTTP/1.1 408 ")


def test_headers_that_never_end_are_answered_with_408(port: int) -> None:
    found = answer(port, b"GET /livez HTTP/1.1\r\nhost: x\r\nslow: ")
    assert found.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert json.loads(found.split(b"\r\n\r\n")[1]) == {
        "error": "The headers did not arrive in time."
    }


def test_after_an_answer_an_idle_connection_is_ended_without_another(port: int) -> None:
    head = b"POST /v1/models/m:predict HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n"
    found = answer(port, head + b"{}")
    assert found.startswith(b"HTTP/1.1 404 ")
    assert found.count(b"HTTP/1.1") == 1


def test_empty_lines_do_not_keep_a_connection(port: int) -> None:
    assert answer(port, b"\r\n\r\n").startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize(
    "head",
    [
        b"GET /livez HTTP/1.1\r\nhost: x\r\nlarge: " + b"a" * 3000,
        b"GET /livez HTTP/1.1\r\nhost: x\r\nlarge: " + b"a" * 3000 + b"\r\n\r\n",
        b"GET /livez HTTP/1.1\r\n" + b"a: b\r\n" * 1000 + b"\r\n",
        b"GET /" + b"a" * 3000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
    ],
)
def test_headers_that_are_too_large_are_answered_with_431(port: int, head: bytes) -> None:
    found = answer(port, head)
    assert found.startswith(b"HTTP/1.1 431 ")
    assert found.count(b"HTTP/1.1") == 1


def test_a_body_that_never_comes_is_answered_with_408(port: int) -> None:
    head = b"POST /v1/models/m:predict HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\n"
    for start in (b"", b"{"):
        found = answer(port, head, start)
        assert found.startswith(b"HTTP/1.1 408 ")
        assert b"The body did not arrive in time." in found


def test_an_idle_connection_is_ended_without_a_word(port: int) -> None:
    found = answer(port, b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n")
    assert found.startswith(b"HTTP/1.1 200 ")
    assert found.endswith(b"ok\n")


def test_requests_one_after_the_other_have_each_their_own_time_and_size(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        for _ in range(5):
            client.sendall(b"GET /livez HTTP/1.1\r\nlarge: " + b"a" * 1500 + b"\r\n\r\n")
            found = b""
            while not found.endswith(b"ok\n"):
                found += client.recv(65536)
            assert found.startswith(b"HTTP/1.1 200 ")


def test_what_is_no_http_is_answered_with_400(port: int) -> None:
    assert answer(port, b"nonsense\r\n\r\n").startswith(b"HTTP/1.1 400 ")


def test_connections_that_are_too_many_are_refused_and_the_others_served(port: int) -> None:
    clients = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(60)]
    try:
        clients[0].sendall(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n")
        assert clients[0].recv(65536).startswith(b"HTTP/1.1 200 ")
        clients[-1].settimeout(20)
        with contextlib.suppress(ConnectionResetError):
            assert clients[-1].recv(10) == b""
        where = ("127.0.0.1", port)
        another = socket.create_connection(where, timeout=20, source_address=("127.0.0.2", 0))
        clients.append(another)  # from where nobody is yet
        another.sendall(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n")
        assert another.recv(65536).startswith(b"HTTP/1.1 200 ")
    finally:
        for client in clients:
            client.close()
