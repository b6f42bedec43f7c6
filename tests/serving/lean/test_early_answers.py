"""Refusals of requests that have not come whole: they wait for the end, within bounds."""

from __future__ import annotations

import pytest

from estimand.serving.lean import frames
from estimand.serving.lean.frames import ACK, DATA, END_HEADERS, END_STREAM, HEADERS, PING, frame
from estimand.serving.lean.limits import Limits
from tests.serving.lean import fake
from tests.serving.lean.fake import Raw

FOR_EVER = 1e9
WAITS = Limits(early_answer_seconds=FOR_EVER, early_answers=3, early_answer_bytes=1000)
NO_GRPC = {"content-type": "application/json"}


def said_until_now(raw: Raw) -> list[tuple[int, int]]:
    """Kinds and streams of the frames that the server has sent so far."""
    mark = b"so far.."
    raw.send(frame(PING, 0, 0, mark))
    found = []
    while (got := raw.read()) is not None:
        if got[0] == PING and got[1] & ACK and got[3] == mark:
            return [one for one in found if one[1]]
        found.append((got[0], got[2]))
    raise AssertionError("the connection ended")


def whole(stream: int) -> list[tuple[int, int]]:
    return [(HEADERS, stream)]


def cut_off(stream: int) -> list[tuple[int, int]]:
    return [(HEADERS, stream), (frames.RST_STREAM, stream)]


@pytest.mark.parametrize("end", ["data", "trailers"])
def test_a_refusal_comes_after_the_request_and_without_a_reset(end: str) -> None:
    with fake.lean(WAITS) as running, Raw(running.port) as raw:
        raw.send(raw.opening(1, **NO_GRPC), frame(DATA, 0, 1, b"x"))
        assert said_until_now(raw) == []
        trailers = frame(HEADERS, END_HEADERS | END_STREAM, 1, raw.encoder.encode([("a", "b")]))
        raw.send(trailers if end == "trailers" else frame(DATA, END_STREAM, 1, b"x"))
        assert said_until_now(raw) == whole(1)


def test_a_request_that_is_large_is_refused_before_its_end() -> None:
    with fake.lean(WAITS) as running, Raw(running.port) as raw:
        raw.send(raw.opening(1, **NO_GRPC), frame(DATA, 0, 1, bytes(1000)))
        assert said_until_now(raw) == []
        raw.send(frame(DATA, 0, 1, b"x"))
        assert said_until_now(raw) == cut_off(1)
        raw.send(frame(DATA, END_STREAM, 1, b"x"))  # it had not heard of it
        assert said_until_now(raw) == []


def test_a_request_that_does_not_come_is_refused_soon() -> None:
    limits = Limits(early_answer_seconds=0.01)
    with fake.lean(limits, tick=0.01) as running, Raw(running.port) as raw:
        raw.send(raw.opening(1, **NO_GRPC))
        assert raw.answer(1)[0] == {":status": "415"}
        assert raw.reset(1) == "NO_ERROR"


def test_only_some_refusals_of_a_connection_wait() -> None:
    with fake.lean(WAITS) as running, Raw(running.port) as raw:
        for stream in range(1, 11, 2):
            raw.send(raw.opening(stream, **NO_GRPC))
        assert said_until_now(raw) == cut_off(1) + cut_off(3)


def test_a_request_that_is_refused_has_no_memory_while_its_answer_waits() -> None:
    limits = Limits(early_answer_seconds=FOR_EVER, message_bytes=2**20)
    with fake.lean(limits) as running, Raw(running.port) as raw:
        too_large = b"\0" + frames.pack_u32(2**21) + bytes(1000)
        raw.send(raw.opening(1), frame(DATA, 0, 1, b"\0"))
        assert said_until_now(raw) == []
        memory = running.server._shared.memory
        assert memory.held > 0
        raw.send(frame(DATA, 0, 1, too_large[1:]))
        assert said_until_now(raw) == []
        assert (memory.held, memory.taken) == (0, 0)


def test_a_refusal_that_nobody_waits_for_is_forgotten() -> None:
    with fake.lean(WAITS) as running, Raw(running.port) as raw:
        raw.send(raw.opening(1, **NO_GRPC), frames.reset(1, frames.Code.CANCEL))
        raw.send(raw.opening(3, **NO_GRPC))
        raw.send(frame(DATA, END_STREAM, 1, b"x"), frame(DATA, END_STREAM, 3, b"x"))
        assert said_until_now(raw) == whole(3)
