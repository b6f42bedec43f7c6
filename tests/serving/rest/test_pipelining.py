"""Requests that come together: each is answered, in its turn, and so are other clients."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

from estimand.serving.access.request_memory import RequestMemory
from estimand.serving.rest.connection import Connection
from estimand.serving.rest.exchange import Exchange
from estimand.serving.rest.shared import RestLimits, Shared


class Wire:
    """In the place of a transport: notes what is written."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return False

    def get_extra_info(self, _: str) -> Any:
        return "127.0.0.1", 1

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    @property
    def answers(self) -> int:
        return self.written.count(b"HTTP/1.1 200")


class Sizes:
    """In the place of a prediction: answers with the size of the body, a turn later."""

    arrival: Any = None
    most_bytes = 2**20

    def __init__(self, exchange: Exchange, deadline: float) -> None:
        self._exchange = exchange
        self.deadline = deadline

    def run(self, body: bytes, at_once: bool) -> None:
        if self.arrival is not None:
            self.arrival.end()
        answer = b"<%d>" % len(body)
        asyncio.get_running_loop().call_soon(self._exchange.succeed, answer)

    def refuse(self, error: Exception) -> None:
        raise error


def start(exchange: Exchange) -> None:
    if exchange.method == b"GET":
        exchange.answer(200, b"now")
    else:
        deadline = asyncio.get_running_loop().time() + 60
        exchange.prediction = Sizes(exchange, deadline)  # type: ignore[assignment]


def connected() -> tuple[Connection, Wire]:
    shared = Shared(asyncio.get_running_loop(), start, RestLimits(), RequestMemory(2**30))
    connection, wire = Connection(shared), Wire()
    connection.connection_made(wire)
    return connection, wire


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def post(size: int) -> bytes:
    return b"POST / HTTP/1.1\r\ncontent-length: %d\r\n\r\n%b" % (size, b"x" * size)


def test_a_large_body_behind_another_request_is_read_on() -> None:
    """It began in the same read, of which no more was parsed before the first was answered."""

    async def main() -> bytes:
        connection, wire = connected()
        connection.data_received(post(10) + post(100_000))
        await turns(20)
        return wire.written

    written = asyncio.run(main())
    assert b"<10>" in written and b"<100000>" in written


def test_of_many_requests_in_one_read_a_few_are_answered_in_each_turn() -> None:
    count = 1000

    async def main() -> list[int]:
        connection, wire = connected()
        connection.data_received(b"GET / HTTP/1.1\r\n\r\n" * count)
        answered = [0, wire.answers]
        while answered[-1] > answered[-2]:
            await turns(1)
            answered.append(wire.answers)
        return answered

    answered = asyncio.run(main())
    assert answered[-1] == count
    assert max(after - before for before, after in itertools.pairwise(answered)) <= 5
