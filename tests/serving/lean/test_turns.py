"""A connection that asks much at once: others have their turn in between."""

from __future__ import annotations

import asyncio
from typing import Any

import hpack

from estimand.serving.lean import connection, frames
from estimand.serving.lean.connection import Connection
from estimand.serving.lean.frames import END_HEADERS, Code, frame
from estimand.serving.lean.limits import Limits
from estimand.serving.lean.shared import Shared
from estimand.serving.lean.streams import Unary
from tests.serving.lean.fake import data
from tests.serving.lean.test_fuzz import Transport

AT_A_TIME = connection._REQUESTS_AT_A_TIME
HEADERS = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/count"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
]


class Paused(Transport):
    """Knows whether it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read = True

    def pause_reading(self) -> None:
        self.is_read = False

    def resume_reading(self) -> None:
        self.is_read = True


def calls(count: int) -> bytes:
    encoder = hpack.Encoder()
    greeting = frames.PREFACE + frames.settings({4: 2**20}) + frames.window_update(0, 2**20)
    return greeting + b"".join(
        frame(frames.HEADERS, END_HEADERS, stream, encoder.encode(HEADERS)) + data(stream, b"a")
        for stream in range(1, 2 * count, 2)
    )


def run(talk: Any) -> list[int]:
    """How many requests were started at each look."""

    async def main() -> list[int]:
        started: list[bytes] = []
        transport = Paused()

        def start(body: bytes, deadline: object, reply: Any) -> None:
            started.append(body)
            reply.succeed(body)

        shared = Shared({b"/count": Unary(None, start)}, Limits())
        one = Connection(shared)
        one.connection_made(transport)
        return [len(started) async for _ in talk(one, transport)]

    return asyncio.run(main())


def test_requests_of_one_connection_are_started_in_turns() -> None:
    async def talk(one: Connection, transport: Paused):
        one.data_received(calls(3 * AT_A_TIME + 5))
        for _ in range(3):
            assert not transport.is_read
            yield
            await asyncio.sleep(0)
        assert transport.is_read
        yield

    assert run(talk) == [AT_A_TIME, 2 * AT_A_TIME, 3 * AT_A_TIME, 3 * AT_A_TIME + 5]


def test_what_comes_meanwhile_is_read_after_it() -> None:
    """A transport may have more that it has read already."""
    sent = calls(2 * AT_A_TIME)
    cut = len(sent) - 100

    async def talk(one: Connection, transport: Paused):
        one.data_received(sent[:cut])
        yield
        one.data_received(sent[cut:])
        yield
        await asyncio.sleep(0)
        assert transport.is_read
        yield

    assert run(talk) == [AT_A_TIME, 2 * AT_A_TIME, 2 * AT_A_TIME]


def test_a_connection_that_ends_meanwhile_starts_no_more() -> None:
    async def talk(one: Connection, transport: Paused):
        one.data_received(calls(2 * AT_A_TIME))
        one.lifetime.close(Code.NO_ERROR, "enough")
        await asyncio.sleep(0)
        yield

    assert run(talk) == [AT_A_TIME]
