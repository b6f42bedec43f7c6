"""Peers that break the rules, or keep them in a way that costs us. Raw sockets."""

from __future__ import annotations

import gzip
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from estimand.serving.lean import frames
from estimand.serving.lean.frames import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PADDED,
    PING,
    RST_STREAM,
    SETTINGS,
    frame,
    pack_u32,
    window_update,
)
from estimand.serving.lean.limits import Limits
from tests.serving.lean import fake
from tests.serving.lean.fake import GOOD, Raw, data

CALM = "ENHANCE_YOUR_CALM"
LIMITS = Limits(
    message_bytes=1_000_000,
    streams=20,
    idle_frames=200,
    idle_frames_per_stream=4,
    resets=50,
)


@pytest.fixture(scope="module")
def server() -> Iterator[fake.Running]:
    with fake.lean(LIMITS) as running:
        yield running


@pytest.fixture(autouse=True)
def others_are_served(server: fake.Running) -> Iterator[None]:
    """Whatever a peer did, the next one gets its answer."""
    yield
    with Raw(server.port) as raw:
        raw.send(raw.call(1, b"abc"))
        assert raw.answer(1) == (GOOD, b"\0\0\0\0\x03abc")


# ---------------------------------------------------------------- broken rules


def raw_headers(raw: Raw, *headers: tuple[str, str]) -> bytes:
    return frame(HEADERS, END_HEADERS, 1, raw.encoder.encode(headers))


BROKEN: dict[str, tuple[str, Callable[[Raw], bytes]]] = {
    "frame too large": ("FRAME_SIZE_ERROR", lambda raw: b"\xff\xff\xff\0\0\0\0\0\1"),
    "data of no stream": ("PROTOCOL_ERROR", lambda raw: data(7, b"")),
    "data of stream 0": ("PROTOCOL_ERROR", lambda raw: data(0, b"")),
    "even stream": ("PROTOCOL_ERROR", lambda raw: raw.opening(2)),
    "padding too long": (
        "PROTOCOL_ERROR",
        lambda raw: raw.opening(1) + frame(DATA, PADDED, 1, b"\x05abc"),
    ),
    "interrupted headers": (
        "PROTOCOL_ERROR",
        lambda raw: raw.opening(1, flags=0) + frame(PING, 0, 0, bytes(8)),
    ),
    "continuation of nothing": ("PROTOCOL_ERROR", lambda raw: frame(CONTINUATION, 4, 1, b"")),
    "continuation of another": (
        "PROTOCOL_ERROR",
        lambda raw: raw.opening(1, flags=0) + frame(CONTINUATION, 4, 3, b""),
    ),
    "headers too short": ("FRAME_SIZE_ERROR", lambda raw: frame(HEADERS, 0x24, 1, b"abc")),
    "no table entry": ("COMPRESSION_ERROR", lambda raw: frame(HEADERS, 4, 1, b"\xff\xff\x03")),
    "cut header": ("COMPRESSION_ERROR", lambda raw: frame(HEADERS, 4, 1, b"\x00\x05ab")),
    "table too large": ("COMPRESSION_ERROR", lambda raw: frame(HEADERS, 4, 1, b"\x3f\xe1\xff\x03")),
    "no header": ("COMPRESSION_ERROR", lambda raw: frame(HEADERS, 4, 1, b"\x20" * 9)),
    "reset of no stream": ("PROTOCOL_ERROR", lambda raw: frames.reset(9, frames.Code.CANCEL)),
    "short reset": ("FRAME_SIZE_ERROR", lambda raw: frame(RST_STREAM, 0, 1, b"a")),
    "short ping": ("FRAME_SIZE_ERROR", lambda raw: frame(PING, 0, 0, b"a")),
    "ping of a stream": ("PROTOCOL_ERROR", lambda raw: frame(PING, 0, 1, bytes(8))),
    "bad settings": ("FRAME_SIZE_ERROR", lambda raw: frame(SETTINGS, 0, 0, b"abc")),
    "settings of a stream": ("PROTOCOL_ERROR", lambda raw: frame(SETTINGS, 0, 1)),
    "settings with acknowledgement": (
        "FRAME_SIZE_ERROR",
        lambda raw: frame(SETTINGS, ACK, 0, bytes(6)),
    ),
    "window too large": ("FLOW_CONTROL_ERROR", lambda raw: frames.settings({4: 2**31})),
    "frame size too small": ("PROTOCOL_ERROR", lambda raw: frames.settings({5: 100})),
    "push": ("PROTOCOL_ERROR", lambda raw: frame(5, 4, 1, bytes(4))),
    "bad goaway": ("PROTOCOL_ERROR", lambda raw: frame(frames.GOAWAY, 0, 0, b"")),
    "window by nothing": ("PROTOCOL_ERROR", lambda raw: window_update(0, 0)),
    "window overflow": ("FLOW_CONTROL_ERROR", lambda raw: window_update(0, 2**31 - 1)),
    "window of no stream": ("PROTOCOL_ERROR", lambda raw: window_update(5, 1)),
    "bad window": ("FRAME_SIZE_ERROR", lambda raw: frame(frames.WINDOW_UPDATE, 0, 0, b"")),
    "bad priority": ("FRAME_SIZE_ERROR", lambda raw: frame(frames.PRIORITY, 0, 1, b"")),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_rule_ends_the_connection_with_its_reason(server: fake.Running, case: str) -> None:
    code, make = BROKEN[case]
    with Raw(server.port) as raw:
        raw.send(make(raw))
        assert raw.farewell()[0] == code
        assert raw.is_closed()


@pytest.mark.parametrize(
    "start",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        frames.PREFACE + frame(PING, 0, 0, bytes(8)),
    ],
)
def test_what_is_no_http2_is_closed(server: fake.Running, start: bytes) -> None:
    with Raw(server.port, greet=False) as raw:
        raw.send(start)
        assert raw.farewell()[0] == "PROTOCOL_ERROR"
        assert raw.is_closed()


BAD_HEADERS = {
    "upper case": [("X-Key", "a")],
    "of the connection": [("connection", "close")],
    "late pseudo": [("a", "b"), (":scheme", "http")],
    "unknown pseudo": [(":status", "200")],
    "twice": [(":path", "/b")],
    "line break": [("a", "b\r\nc: d")],
    "empty name": [("", "b")],
}


@pytest.mark.parametrize("case", BAD_HEADERS)
def test_malformed_headers_end_their_stream_only(server: fake.Running, case: str) -> None:
    with Raw(server.port) as raw:
        raw.send(raw_headers(raw, *raw.headers(), *BAD_HEADERS[case]))
        assert raw.reset(1) == "PROTOCOL_ERROR"
        raw.send(raw.call(3, b"a"))
        assert raw.answer(3)[0] == GOOD


def test_missing_pseudo_headers_end_their_stream_only(server: fake.Running) -> None:
    with Raw(server.port) as raw:
        raw.send(raw_headers(raw, *raw.headers()[1:]))
        assert raw.reset(1) == "PROTOCOL_ERROR"


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({":method": "GET"}, {":status": "405"}),
        ({"content-type": "application/json"}, {":status": "415"}),
        ({"content-type": "application/grpcweb"}, {":status": "415"}),
        ({"te": None}, {"grpc-status": "13", "grpc-message": "Missing header te: trailers"}),
        ({"grpc-timeout": "1x"}, {"grpc-status": "13"}),
        ({"grpc-timeout": "0n"}, {"grpc-status": "4"}),
        ({"grpc-timeout": "99999999H"}, {"grpc-status": "0"}),
        (
            {"grpc-encoding": "br"},
            {"grpc-status": "12", "grpc-accept-encoding": "identity,deflate,gzip"},
        ),
        ({":path": "/fake.Fake/%00"}, {"grpc-status": "12"}),
        ({"x": "y" * 20_000}, {"grpc-status": "8"}),
        ({"content-type": "application/grpc+proto"}, {"grpc-status": "0"}),
    ],
)
def test_requests_that_are_no_grpc_are_told_so(
    server: fake.Running, change: dict, expected: dict
) -> None:
    with Raw(server.port) as raw:
        block = raw.encoder.encode(raw.headers(**change))
        first, rest = block[:16_000], block[16_000:]
        raw.send(frame(HEADERS, 0, 1, first), frame(CONTINUATION, END_HEADERS, 1, rest))
        raw.send(data(1, b"a"))
        headers, _ = raw.answer(1)
        assert expected.items() <= headers.items()


BODIES = {
    "nothing": (b"", "13", "The request has no message."),
    "cut prefix": (b"\0\0", "13", "The request has no message."),
    "cut message": (b"\0\0\0\0\x05abc", "13", "The request ends in the middle of its message."),
    "two messages": (
        b"\0\0\0\0\x01a\0\0\0\0\x01b",
        "13",
        "The request has more than the one message it may have.",
    ),
    "too large": (
        b"\0\xff\xff\xff\xff",
        "8",
        "SERVER: Received message larger than max (4294967295 vs. 1000000)",
    ),
    "unknown flags": (b"\x07\0\0\0\x01a", "13", "Unknown flags 7 of a message."),
    "unnamed compression": (
        b"\x01\0\0\0\x01a",
        "13",
        "A message is compressed, but grpc-encoding names no way.",
    ),
}


@pytest.mark.parametrize("in_pieces", [False, True])
@pytest.mark.parametrize("case", BODIES)
def test_bodies_that_are_no_single_message(
    server: fake.Running, case: str, in_pieces: bool
) -> None:
    body, status, text = BODIES[case]
    with Raw(server.port) as raw:
        raw.send(raw.opening(1))
        for byte in body if in_pieces else b"":
            raw.send(frame(DATA, 0, 1, bytes((byte,))))
        raw.send(frame(DATA, END_STREAM, 1, b"" if in_pieces else body))
        headers, _ = raw.answer(1)
        assert (headers["grpc-status"], headers["grpc-message"]) == (status, text)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (gzip.compress(b"x" * 900_000), "0"),
        (gzip.compress(b"x" * 50_000_000), "8"),
        (gzip.compress(b"x" * 1000)[:-12], "13"),
        (b"no gzip", "13"),
    ],
    # Not the bytes, which hold the time they were made at: every process must know the same tests.
    ids=["fits", "too large", "cut", "no gzip"],
)
def test_compressed_bodies_are_bounded(server: fake.Running, body: bytes, status: str) -> None:
    with Raw(server.port) as raw:
        # More windows: the answer is large.
        raw.send(frames.settings({4: 2**20}), window_update(0, 2**20))
        raw.send(raw.opening(1, grpc_encoding="gzip"))
        message = b"\x01" + pack_u32(len(body)) + body
        for start in range(0, len(message), 16_384):
            raw.send(frame(DATA, 0, 1, message[start : start + 16_384]))
        raw.send(frame(DATA, END_STREAM, 1))
        assert raw.answer(1)[0]["grpc-status"] == status


def test_data_after_the_end_of_a_request_ends_its_stream(server: fake.Running) -> None:
    with Raw(server.port) as raw:
        raw.send(raw.call(1, b"30", path="/fake.Fake/Wait"), data(1, b"more"))
        assert raw.reset(1) == "STREAM_CLOSED"


@pytest.mark.parametrize("first", [1, 9, 15, 23, 25, 34])
def test_in_however_many_parts_it_comes_a_request_is_answered(
    server: fake.Running, first: int
) -> None:
    """The greeting, too."""
    with Raw(server.port, greet=False) as raw:
        raw.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        whole = frames.PREFACE + frames.settings({}) + raw.call(1, b"hello")
        for part in (whole[:first], whole[first : first + 5], whole[first + 5 :]):
            raw.send(part)
            time.sleep(0.02)  # so that it is read by itself
        assert raw.answer(1)[1] == b"\0\0\0\0\x05hello"


def test_trailers_end_a_request(server: fake.Running) -> None:
    with Raw(server.port) as raw:
        end = frame(HEADERS, END_HEADERS | END_STREAM, 1, raw.encoder.encode([("a", "b")]))
        raw.send(raw.opening(1), data(1, b"a", 0), end)
        assert raw.answer(1) == (GOOD, b"\0\0\0\0\x01a")
        more = frame(HEADERS, END_HEADERS, 3, raw.encoder.encode([("a", "b")]))
        raw.send(raw.opening(3), more)
        assert raw.reset(3) == "PROTOCOL_ERROR"


# ---------------------------------------------------------------- floods


def test_a_flood_of_pings_is_ended(server: fake.Running) -> None:
    with Raw(server.port) as raw:
        raw.send(frame(PING, 0, 0, b"12345678"))
        assert raw.until(PING)[1:] == (ACK, 0, b"12345678")
        raw.send(frame(PING, 0, 0, bytes(8)) * 10)
        assert raw.farewell() == (CALM, "too_many_pings")


def test_pings_between_calls_are_welcome(server: fake.Running) -> None:
    with Raw(server.port) as raw:
        for stream in range(1, 21, 2):
            raw.send(raw.call(stream, b"a"))
            assert raw.answer(stream)[0] == GOOD
            raw.send(frame(PING, 0, 0, bytes(8)))
            raw.until(PING)


FLOODS = {
    "settings": lambda raw: frame(SETTINGS, 0, 0) * 1000,
    "acknowledgements": lambda raw: frame(PING, ACK, 0, bytes(8)) * 1000,
    "priorities": lambda raw: frame(frames.PRIORITY, 0, 1, bytes(5)) * 1000,
    "unknown frames": lambda raw: frame(77, 0, 0, b"") * 1000,
    "windows": lambda raw: window_update(0, 1) * 1000,
    "empty data": lambda raw: raw.opening(1) + frame(DATA, 0, 1) * 1000,
    "tiny data": lambda raw: (
        raw.opening(1)
        + frame(DATA, 0, 1, b"\0") * 4
        + b"".join(frame(DATA, 0, 1, b"\0") for _ in range(1000))
    ),
    "padding": lambda raw: raw.opening(1) + frame(DATA, PADDED, 1, b"\0") * 1000,
    "empty continuations": lambda raw: raw.opening(1, flags=0) + frame(CONTINUATION, 0, 1) * 1000,
    "long continuations": lambda raw: (
        raw.opening(1, flags=0) + frame(CONTINUATION, 0, 1, b"\0\x01a\x01b" * 500) * 100
    ),
    "headers that cost much": lambda raw: b"".join(
        frame(HEADERS, END_HEADERS, stream, b"\x82" * 1500) for stream in range(1, 99, 2)
    ),
    "late data": lambda raw: raw.call(1, b"a") + frame(DATA, 0, 1) * 1000,
}


@pytest.mark.parametrize("case", FLOODS)
def test_a_flood_is_ended(server: fake.Running, case: str) -> None:
    with Raw(server.port) as raw:
        raw.send(FLOODS[case](raw))
        assert raw.farewell()[0] == CALM
        assert raw.is_closed()


def test_calls_that_are_opened_and_taken_back_at_once_end_the_connection(
    server: fake.Running,
) -> None:
    with Raw(server.port) as raw:
        for stream in range(1, 201, 2):
            raw.send(raw.call(stream, b"30", path="/fake.Fake/Wait"))
            raw.send(frames.reset(stream, frames.Code.CANCEL))
        assert raw.farewell() == (CALM, "too many calls taken back")


def test_more_streams_than_allowed_are_refused_and_the_others_served(server: fake.Running) -> None:
    with Raw(server.port) as raw:
        for stream in range(1, 2 * LIMITS.streams + 1, 2):
            raw.send(raw.opening(stream))
        raw.send(raw.opening(99))
        assert raw.reset(99) == "REFUSED_STREAM"
        raw.send(data(1, b"a"))
        assert raw.answer(1)[0] == GOOD
        raw.send(raw.call(101, b"b"))
        assert raw.answer(101)[0] == GOOD


def test_headers_that_blow_up_end_the_connection(server: fake.Running) -> None:
    with Raw(server.port) as raw:
        # One entry of the table, and then it again and again, a byte each.
        entry = b"\x40\x01a\x7f" + b"\x81\x1e" + b"v" * 4000
        raw.send(frame(HEADERS, END_HEADERS, 1, entry + b"\xbe" * 10_000))
        assert raw.farewell()[0] == CALM
