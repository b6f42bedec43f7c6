"""Peers that are slow, silent or gone, connections that grow old, and the server's own end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import grpc
import pytest

from estimand.serving.lean import frames
from estimand.serving.lean.frames import ACK, DATA, END_STREAM, GOAWAY, PING, frame
from estimand.serving.lean.limits import Limits
from tests.serving.lean import fake
from tests.serving.lean.fake import Raw

UNBOUNDED = [("grpc.max_receive_message_length", -1)]


@contextlib.contextmanager
def connected(limits: Limits, greet: bool = True) -> Iterator[tuple[fake.Running, Raw]]:
    with fake.lean(limits, tick=0.01) as running, Raw(running.port, greet) as raw:
        yield running, raw


@pytest.mark.parametrize("start", [b"", frames.PREFACE[:10]])
def test_who_does_not_begin_is_closed(start: bytes) -> None:
    with connected(Limits(greeting_seconds=0.05), greet=False) as (_, raw):
        raw.send(start)
        assert raw.is_closed()


@pytest.mark.parametrize("what", ["frame", "headers"])
def test_a_frame_or_headers_that_do_not_end_end_the_connection(what: str) -> None:
    with connected(Limits(frame_seconds=0.1)) as (_, raw):
        raw.send(frame(DATA, 0, 1, bytes(100))[:50] if what == "frame" else raw.opening(1, flags=0))
        assert raw.farewell() == ("ENHANCE_YOUR_CALM", "a frame does not end")
        assert raw.is_closed()


def test_a_request_that_stops_is_answered_with_an_error() -> None:
    with connected(Limits(request_seconds=0.1)) as (_, raw):
        raw.send(raw.opening(1), frame(DATA, 0, 1, b"\0\0\0\0\x09abc"))
        headers, _ = raw.answer(1)
        assert headers["grpc-status"] == "14"
        assert headers["grpc-message"] == "Too little of the request came within 0.1 s."
        assert raw.reset(1) == "NO_ERROR"  # it need not send the rest
        raw.send(raw.call(3, b"a"))
        assert raw.answer(3)[0]["grpc-status"] == "0"


def test_an_answer_that_is_not_taken_is_dropped() -> None:
    with connected(Limits(answer_seconds=0.1)) as (running, raw):
        raw.send(frames.settings({4: 10}))
        raw.send(raw.call(1, b"1000 a", path="/fake.Fake/Repeat"))
        assert raw.reset(1) == "CANCEL"
        (connection,) = running.server._shared.connections
        assert connection.sender.unsent == 0


def test_a_peer_that_reads_nothing_is_closed() -> None:
    with connected(Limits(answer_seconds=0.2)) as (running, raw):
        raw.send(frames.settings({4: 2**30}), frames.window_update(0, 2**30))
        raw.send(raw.call(1, b"30000000 a", path="/fake.Fake/Repeat"))
        for _ in range(500):
            if not running.server.connections:
                break
            time.sleep(0.01)
        assert running.server.connections == 0


def test_a_silent_peer_is_asked_and_closed_without_an_answer() -> None:
    limits = Limits(keepalive_seconds=0.05, keepalive_timeout_seconds=0.2)
    with connected(limits) as (_, raw):
        for _ in range(3):
            _, flags, _, payload = raw.until(PING)
            assert flags == 0
            raw.send(frame(PING, ACK, 0, payload))
        assert raw.until(PING)
        assert raw.is_closed()


def test_the_deadline_of_a_request_that_does_not_come() -> None:
    with connected(Limits()) as (_, raw):
        raw.send(raw.opening(1, grpc_timeout="50m"))
        headers, _ = raw.answer(1)
        assert (headers["grpc-status"], headers["grpc-message"]) == ("4", "Deadline Exceeded")


def test_an_old_connection_ends_after_its_calls() -> None:
    with connected(Limits(age_seconds=0.1)) as (_, raw):
        raw.send(raw.call(1, b"0.5", path="/fake.Fake/Wait"))
        assert raw.farewell() == ("NO_ERROR", "max_age")
        raw.send(raw.call(3, b"late"))  # it had not heard of it
        assert raw.answer(3)[1] == b"\0\0\0\0\x04late"
        assert raw.answer(1)[1] == b"\0\0\0\0\x04done"


def test_an_idle_connection_ends() -> None:
    with connected(Limits(idle_seconds=0.1)) as (_, raw):
        raw.send(raw.call(1, b"a"))
        assert raw.answer(1)[0]["grpc-status"] == "0"
        assert raw.farewell() == ("NO_ERROR", "max_idle")
        raw.send(frame(PING, ACK, 0, raw.until(PING)[3]))
        assert raw.until(GOAWAY)[3] == b"\0\0\0\x01\0\0\0\0"
        assert raw.is_closed()


def test_the_end_of_the_server_as_a_peer_sees_it() -> None:
    with connected(Limits()) as (running, raw):
        raw.send(raw.call(1, b"0.3", path="/fake.Fake/Wait"))
        assert running.seen.started.acquire(timeout=10)
        stopping = running.stop(10.0)
        assert raw.until(GOAWAY)[3] == b"\x7f\xff\xff\xff\0\0\0\0"
        ping = raw.until(PING)[3]
        raw.send(raw.call(3, b"on its way"), frame(PING, ACK, 0, ping))
        assert raw.until(GOAWAY)[3] == b"\0\0\0\x03\0\0\0\0"
        assert raw.answer(3)[1] == b"\0\0\0\0\x0aon its way"
        raw.send(raw.call(5, b"too late"))
        assert raw.answer(1)[1] == b"\0\0\0\0\x04done"
        assert raw.is_closed()
        stopping.result(5)


def test_a_peer_that_says_farewell_gets_its_answers() -> None:
    with connected(Limits()) as (_, raw):
        raw.send(raw.call(1, b"0.1", path="/fake.Fake/Wait"))
        raw.send(frames.goaway(0, frames.Code.NO_ERROR))
        assert raw.answer(1)[1] == b"\0\0\0\0\x04done"
        assert raw.is_closed()


def test_a_peer_that_goes_takes_its_calls_with_it() -> None:
    with connected(Limits()) as (running, raw):
        raw.send(raw.call(1, b"30", path="/fake.Fake/Wait"))
        assert running.seen.started.acquire(timeout=10)
        raw.socket.close()
        assert running.seen.cancelled.acquire(timeout=10)


def test_more_connections_than_allowed_are_closed() -> None:
    with connected(Limits(connections=1)) as (running, raw):
        raw.send(raw.call(1, b"a"))
        assert raw.answer(1)[0]["grpc-status"] == "0"
        with Raw(running.port) as other:
            assert other.is_closed()
        raw.send(raw.call(3, b"a"))
        assert raw.answer(3)[0]["grpc-status"] == "0"


def test_large_requests_wait_for_room() -> None:
    size = 200_000
    with connected(Limits(pending_bytes=200_000)) as (running, raw), Raw(running.port) as other:
        start = frame(DATA, 0, 1, b"\0" + frames.pack_u32(size) + bytes(16_000))
        raw.send(raw.opening(1), start)
        raw.until(frames.WINDOW_UPDATE, 1)
        other.send(other.opening(1), start, other.call(3, b"small"))
        assert other.answer(3)[1] == b"\0\0\0\0\x05small"  # nothing in between opened a window
        raw.send(frames.reset(1, frames.Code.CANCEL))
        amount = frames.read_u32(other.until(frames.WINDOW_UPDATE, 1)[3])[0]
        assert amount == size + 5 - 65_535
        rest = size - 16_000
        while rest:
            part = min(rest, 16_000)
            rest -= part
            other.send(frame(DATA, 0 if rest else END_STREAM, 1, bytes(part)))
        other.send(frames.window_update(0, 2**20), frames.window_update(1, 2**20))
        assert other.answer(1)[1] == b"\0" + frames.pack_u32(size) + bytes(size)
        assert running.server._shared.memory.taken == 0
        assert running.server._shared.memory.held == 0


def test_a_request_that_announces_much_and_sends_little_holds_little() -> None:
    """Each announces more than all of the room, and goes on as slowly as it may."""
    with connected(Limits(pending_bytes=8 * 2**20, message_bytes=2**31)) as (running, raw):
        start = b"\0" + frames.pack_u32(300 * 2**20) + bytes(16_000)
        for stream in (1, 3, 5):
            raw.send(raw.opening(stream), frame(DATA, 0, stream, start))
            raw.until(frames.WINDOW_UPDATE, stream)
        assert running.server._shared.memory.taken == 3 * 2**20
        with grpc.insecure_channel(f"127.0.0.1:{running.port}", UNBOUNDED) as channel:
            body = bytes(6 * 2**20)
            assert channel.unary_unary("/fake.Fake/Echo")(body, timeout=20) == body
        for stream in (1, 3, 5):
            raw.send(frame(DATA, 0, stream, b"a"))
        raw.send(raw.call(7, b"a"))
        assert raw.answer(7)[0]["grpc-status"] == "0"


def test_a_connection_is_promised_no_more_than_it_can_send_soon() -> None:
    with connected(Limits(message_bytes=2**31)) as (running, raw):
        start = b"\0" + frames.pack_u32(300 * 2**20) + bytes(16_000)
        for stream in range(1, 41, 2):
            raw.send(raw.opening(stream), frame(DATA, 0, stream, start))
        raw.send(raw.call(41, b"a"))
        assert raw.answer(41)[0]["grpc-status"] == "0"
        assert running.server._shared.memory.taken <= 5 * 2**20


def test_a_request_that_comes_slowly_goes_when_others_wait_for_its_room() -> None:
    with connected(Limits(pending_bytes=2**20)) as (running, raw), Raw(running.port) as other:
        running.server._shared.memory._patience = 0.1
        start = b"\0" + frames.pack_u32(2 * 2**20) + bytes(16_000)
        raw.send(raw.opening(1), frame(DATA, 0, 1, start))
        raw.until(frames.WINDOW_UPDATE, 1)
        other.send(other.opening(1), frame(DATA, 0, 1, start))
        other.until(frames.WINDOW_UPDATE, 1)
        headers, _ = raw.answer(1)
        assert headers["grpc-status"] == "8"
        assert "came too slowly while others waited" in headers["grpc-message"]


def test_bytes_that_drip_do_not_keep_a_request() -> None:
    with connected(Limits(request_seconds=0.1, bytes_per_second=100_000)) as (_, raw):
        raw.until(frames.SETTINGS)
        raw.send(raw.opening(1), frame(DATA, 0, 1, b"\0\0\0\xff\xff"))
        raw.socket.settimeout(0.01)
        for _ in range(1000):
            raw.send(frame(DATA, 0, 1, b"a"))
            with contextlib.suppress(TimeoutError):
                assert raw.reset(1) == "NO_ERROR"
                break
        else:
            pytest.fail("a byte now and then kept it for ever")


def test_many_unfinished_requests_do_not_fill_the_memory() -> None:
    with connected(Limits(pending_bytes=100_000)) as (running, raw):
        start = b"\0" + frames.pack_u32(60_000) + bytes(16_000)
        for stream in range(1, 20, 2):
            raw.send(raw.opening(stream), frame(DATA, 0, stream, start))
        headers, _ = raw.answer(13)
        assert headers["grpc-status"] == "8"
        assert "bytes of unfinished requests are in the server's memory" in headers["grpc-message"]
        raw.send(*[frames.reset(stream, frames.Code.CANCEL) for stream in range(1, 13, 2)])
        raw.send(raw.opening(21), frame(DATA, 0, 21, b"\0\0\0\0\x03a"), frame(DATA, 1, 21, b"bc"))
        assert raw.answer(21)[1] == b"\0\0\0\0\x03abc"
        assert running.server._shared.memory.held == 0


def test_a_request_larger_than_all_room_gets_in_alone() -> None:
    with (
        connected(Limits(pending_bytes=400_000)) as (running, _),
        grpc.insecure_channel(f"127.0.0.1:{running.port}", UNBOUNDED) as channel,
    ):
        body = bytes(500_000)
        calls = [channel.unary_unary("/fake.Fake/Echo").future(body) for _ in range(5)]
        assert [call.result(20) for call in calls] == [body] * 5
