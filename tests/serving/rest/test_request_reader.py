"""Requests whose heads have the same bytes as the one before: read once, answered the same."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from estimand.serving.access.request_memory import RequestMemory
from estimand.serving.rest.connection import Connection
from estimand.serving.rest.exchange import Exchange
from estimand.serving.rest.shared import RestLimits, Shared


class Wire:
    """In the place of a transport."""

    def __init__(self) -> None:
        self.written = b""
        self.is_closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def get_extra_info(self, _: str) -> Any:
        return "127.0.0.1", 1

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


class Echo:
    """In the place of a prediction: answers with the body."""

    arrival: Any = None
    most_bytes = 2**20
    deadline = float("inf")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def run(self, body: bytes, at_once: bool) -> None:
        if self.arrival is not None:
            self.arrival.end()
        self._exchange.succeed(b"<%b>" % body)

    def refuse(self, error: Exception) -> None:
        raise error


def answers(*reads: bytes) -> tuple[list[bytes], list[bool]]:
    """The answers to what comes in these reads, and of which requests the head was known."""
    known: list[bool] = []

    def start(exchange: Exchange) -> None:
        known.append(exchange.known is not None)
        exchange.prediction = Echo(exchange)  # type: ignore[assignment]

    async def main() -> bytes:
        shared = Shared(asyncio.get_running_loop(), start, RestLimits(), RequestMemory(2**30))
        connection, wire = Connection(shared), Wire()
        connection.connection_made(wire)
        for read in reads:
            connection.data_received(read)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return wire.written

    written = asyncio.run(main())
    return [part.rpartition(b"\r\n\r\n<")[2] for part in written.split(b">")[:-1]], known


def post(body: bytes, more: bytes = b"") -> bytes:
    return b"POST / HTTP/1.1\r\ncontent-length: %d%b\r\n\r\n%b" % (len(body), more, body)


def test_the_same_head_with_other_bodies_is_read_once() -> None:
    assert answers(post(b"one"), post(b"two"), post(b"six")) == (
        [b"one", b"two", b"six"],
        [False, True, True],
    )


def test_other_heads_are_read_as_ever() -> None:
    reads = [post(b"one"), post(b"three"), post(b"two"), post(b"six", b"\r\nx: y"), post(b"ten")]
    assert answers(*reads) == ([b"one", b"three", b"two", b"six", b"ten"], [False] * 5)


def test_a_request_in_pieces_is_none_that_is_known() -> None:
    whole = post(b"four")
    for cut in range(1, len(whole)):
        reads = [whole, whole[:cut], whole[cut:], whole]
        assert answers(*reads) == ([b"four"] * 3, [False, False, True])


def test_what_looks_like_a_request_within_a_body_is_a_part_of_it() -> None:
    inner = post(b"in")
    outer = post(b"x" * len(inner))
    reads = [inner, outer[: -len(inner)], inner, inner]
    assert answers(*reads) == ([b"in", inner, b"in"], [False, False, True])


@pytest.mark.parametrize("end", [b"\r\n", b"\r\n\r\n"])
def test_lines_after_a_body_are_no_part_of_the_next(end: bytes) -> None:
    read = post(b"\r\n\r\n") + end
    assert answers(read, read, read)[0] == [b"\r\n\r\n"] * 3


def test_chunks_and_several_requests_in_a_read_are_parsed() -> None:
    head = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
    chunked = head + b"3\r\nabc\r\n0\r\n\r\n"
    two = post(b"one") + post(b"two")
    assert answers(chunked, chunked, two, two)[0] == [b"abc", b"abc", *[b"one", b"two"] * 2]


def test_the_end_of_a_connection_is_never_known() -> None:
    last = post(b"one", b"\r\nconnection: close")
    assert answers(last, last) == ([b"one"], [False])
