"""Flow control: what a peer may send, and what it is sent."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

from estimand.serving.lean import frames
from estimand.serving.lean.frames import DATA, HEADERS, frame, pack_u32, window_update
from estimand.serving.lean.limits import Limits
from tests.serving.lean import fake
from tests.serving.lean.fake import GOOD, Raw

LIMITS = Limits(message_bytes=1_000_000, idle_frames=200, unsent_bytes=350_000)


@pytest.fixture(scope="module")
def server() -> Iterator[fake.Running]:
    with fake.lean(LIMITS) as running:
        yield running


def test_data_beyond_the_window_of_a_stream_ends_it(server: fake.Running) -> None:
    with Raw(server.port) as raw:
        raw.send(raw.opening(1), frame(DATA, 0, 1, b"\0\0\x0f\x00\x00" + bytes(16_000)))
        assert raw.until(frames.WINDOW_UPDATE, 1)[3] == pack_u32(0x0F0000 + 5 - 65_535)
        for _ in range(70):
            raw.send(frame(DATA, 0, 1, bytes(16_000)))
        assert raw.reset(1) == "FLOW_CONTROL_ERROR"


def test_an_answer_waits_for_windows_and_others_overtake_it(server: fake.Running) -> None:
    with Raw(server.port) as raw:
        raw.send(frames.settings({4: 10}), window_update(0, 100_000))
        raw.send(raw.call(1, b"100 ab", path="/fake.Fake/Repeat"))
        assert raw.until(DATA, 1)[3] == b"\0\0\0\0\xc8ababa"
        raw.send(raw.call(3, b"ok"))
        assert raw.answer(3)[1] == b"\0\0\0\0\x02ok"
        raw.send(window_update(1, 45))
        assert raw.until(DATA, 1)[3] == (b"ba" * 23)[:45]
        raw.send(frames.settings({4: 1000}))
        headers, body = raw.answer(1)
        assert headers == {"grpc-status": "0"}
        assert len(body) == 150


def test_a_smaller_first_window_may_make_a_window_negative(server: fake.Running) -> None:
    with Raw(server.port) as raw:
        raw.send(frames.settings({4: 30}))
        raw.send(raw.call(1, b"50 ab", path="/fake.Fake/Repeat"))
        assert len(raw.until(DATA, 1)[3]) == 30
        raw.send(frames.settings({4: 0}))  # its window is -30 now
        raw.send(window_update(1, 40))
        assert len(raw.until(DATA, 1)[3]) == 10
        raw.send(window_update(1, 1000))
        assert len(raw.answer(1)[1]) == 65


def test_opening_windows_for_a_large_answer_is_no_flood(server: fake.Running) -> None:
    with Raw(server.port) as raw:
        raw.send(raw.call(1, b"8000000 a", path="/fake.Fake/Repeat"))
        got = updates = 0
        while got < 8_000_005:
            size = len(raw.until(DATA, 1)[3])
            raw.send(window_update(0, size), window_update(1, size))
            got += size
            updates += 2
        assert updates > 3 * LIMITS.idle_frames


def test_frames_are_no_larger_than_the_peer_wants(server: fake.Running) -> None:
    with Raw(server.port) as raw:
        raw.send(frames.settings({4: 2**20, 5: 20_000}), window_update(0, 2**20))
        raw.send(raw.call(1, b"100000 a", path="/fake.Fake/Repeat"))
        sizes = [len(raw.until(DATA, 1)[3]) for _ in range(6)]
        assert sizes == [20_000] * 5 + [5]


def test_who_takes_no_answers_is_refused_more(server: fake.Running) -> None:
    with Raw(server.port) as raw:
        raw.send(frames.settings({4: 0}))
        for stream in (1, 3, 5, 7):
            raw.send(raw.call(stream, b"100000 a", path="/fake.Fake/Repeat"))
            raw.until(HEADERS, stream)
        raw.send(raw.call(9, b"a"))
        headers, _ = raw.answer(9)
        assert headers["grpc-status"] == "8"
        assert "wait for this client to take them" in headers["grpc-message"]
        raw.send(frames.settings({4: 2**20}), window_update(0, 2**20))
        assert len(raw.answer(7)[1]) == 100_005


@pytest.mark.parametrize(
    ("amount", "code"), [(0, "PROTOCOL_ERROR"), (2**31 - 1, "FLOW_CONTROL_ERROR")]
)
def test_a_bad_window_of_a_stream_ends_it_only(
    server: fake.Running, amount: int, code: str
) -> None:
    with Raw(server.port) as raw:
        raw.send(raw.opening(1), window_update(1, amount))
        assert raw.reset(1) == code
        raw.send(raw.call(3, b"a"))
        assert raw.answer(3)[0] == GOOD


def test_a_peer_with_a_smaller_table_is_told_that_ours_is_empty(server: fake.Running) -> None:
    with Raw(server.port) as raw:
        raw.send(frames.settings({1: 0}))
        raw.decoder.max_allowed_table_size = 0  # the answer must begin with an update
        raw.send(raw.call(1, b"a"))
        assert raw.answer(1)[0] == GOOD


def test_answers_that_many_peers_do_not_take_are_no_more_than_there_is_room_for() -> None:
    """Who took nothing for longest has to go; others are answered."""
    with contextlib.ExitStack() as stack:
        limits = Limits(pending_bytes=1_050_000, unsent_bytes=350_000)
        running = stack.enter_context(fake.lean(limits, tick=0.05))
        honest = stack.enter_context(Raw(running.port))
        for _ in range(8):
            raw = stack.enter_context(Raw(running.port))
            raw.send(frames.settings({4: 0}))
            raw.send(raw.call(1, b"100000 ab", path="/fake.Fake/Repeat"))
            raw.until(HEADERS, 1)
        honest.send(honest.call(1, b"ok"))
        assert honest.answer(1)[1] == b"\0\0\0\0\x02ok"
        ends = time.monotonic() + 20
        while running.server.connections > 6 and time.monotonic() < ends:
            time.sleep(0.02)
        assert running.server.connections == 6
        honest.send(honest.call(3, b"ok"))
        assert honest.answer(3)[1] == b"\0\0\0\0\x02ok"
