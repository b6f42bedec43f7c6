"""Damaged frames: no exception of ours, nothing left behind."""

from __future__ import annotations

import asyncio
import random

import hpack

from estimand.serving.lean import frames
from estimand.serving.lean.connection import Connection
from estimand.serving.lean.frames import END_HEADERS, END_STREAM, Code, frame, read_u32
from estimand.serving.lean.limits import Limits
from estimand.serving.lean.shared import Shared
from estimand.serving.lean.streams import Unary
from tests.serving.fuzzing import damaged
from tests.serving.lean.fake import data

CASES = 1500


class Transport:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def get_extra_info(self, name: str) -> None:
        return None

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True

    abort = close


def conversation(random_: random.Random) -> list[bytes]:
    encoder = hpack.Encoder()
    headers = [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", random_.choice(["/echo", "/echo", "/slow", "/no"])),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ]
    parts = []
    for stream in range(1, 9, 2):
        parts.append(frame(frames.HEADERS, END_HEADERS, stream, encoder.encode(headers)))
        parts.append(
            random_.choice(
                [
                    data(stream, b"a" * random_.choice([0, 10, 16_000])),
                    data(stream, b"a" * 10, 0) + frame(frames.DATA, END_STREAM, stream),
                    frame(frames.DATA, 0, stream, b"\0\0\x02\0\0" + bytes(9000)),
                    frames.reset(stream, Code.CANCEL),
                ]
            )
        )
        parts.append(
            random_.choice(
                [
                    frame(frames.PING, 0, 0, bytes(8)),
                    frames.settings({4: random_.choice([0, 5, 2**20]), 1: 0}),
                    frames.window_update(random_.choice([0, stream]), random_.choice([1, 2**20])),
                    frames.goaway(0, Code.NO_ERROR),
                ]
            )
        )
    return parts


def goaway_codes(written: bytes) -> set[int]:
    found = set()
    while written:
        size = read_u32(written)[0] >> 8
        if written[3] == frames.GOAWAY:
            found.add(read_u32(written, 13)[0])
        written = written[9 + size :]
    return found


def test_damaged_frames() -> None:
    random_ = random.Random(3)
    codes: set[int] = set()

    async def echo(body, deadline, metadata) -> bytes:
        return body

    async def slow(body, deadline, metadata) -> bytes:
        await asyncio.sleep(1000)
        return body

    async def one(shared: Shared) -> None:
        connection, transport = Connection(shared), Transport()
        connection.connection_made(transport)
        sent = b"".join(
            damaged(part, random_) if random_.random() < 0.08 else part
            for part in conversation(random_)
        )
        sent = frames.PREFACE + frames.settings({}) + sent
        while sent:
            piece = random_.choice([1, 7, 100, 5000, 50_000])
            connection.data_received(sent[:piece])
            sent = sent[piece:]
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        connection.lifetime.tick(shared.now)
        connection.connection_lost(None)
        await asyncio.sleep(0)
        assert not connection.streams
        assert connection.sender.unsent == 0
        codes.update(goaway_codes(transport.written))

    async def main() -> None:
        shared = Shared({b"/echo": Unary(echo), b"/slow": Unary(slow)}, Limits())
        for _ in range(CASES):
            await one(shared)
        await asyncio.sleep(0)
        assert not shared.connections
        assert (shared.memory.taken, shared.memory.held) == (0, 0)
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(main())
    assert Code.INTERNAL_ERROR not in codes
    assert {Code.NO_ERROR, Code.PROTOCOL_ERROR, Code.FRAME_SIZE_ERROR} <= codes
    assert Code.COMPRESSION_ERROR in codes
