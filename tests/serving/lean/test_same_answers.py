"""The same cases on both back ends, with grpcio's client."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from estimand.serving.lean.limits import Limits
from tests.serving.lean import fake

LIMIT = 5_000_000


@pytest.fixture(scope="module", params=["grpcio", "lean"])
def running(request: pytest.FixtureRequest) -> Iterator[fake.Running]:
    make = fake.grpcio if request.param == "grpcio" else fake.lean
    with make(Limits(message_bytes=LIMIT)) as running:
        yield running


@pytest.fixture(scope="module")
def channel(running: fake.Running) -> Iterator[grpc.Channel]:
    options = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(f"127.0.0.1:{running.port}", options) as channel:
        yield channel


def ask(channel: grpc.Channel, method: str, body: bytes, **more) -> bytes:
    return channel.unary_unary(f"/fake.Fake/{method}")(body, timeout=20, **more)


def refused(channel: grpc.Channel, method: str, body: bytes, **more) -> tuple[str, str]:
    with pytest.raises(grpc.RpcError) as caught:
        ask(channel, method, body, **more)
    return caught.value.code().name, caught.value.details()


@pytest.mark.parametrize("size", [0, 1, 16_379, 16_380, 65_535, 70_000, 4_500_000])
def test_messages_of_any_size_come_back(channel: grpc.Channel, size: int) -> None:
    body = bytes(range(256)) * (size // 256 + 1)
    assert ask(channel, "Echo", body[:size]) == body[:size]


def test_an_answer_may_be_larger_than_any_request(channel: grpc.Channel) -> None:
    assert ask(channel, "Repeat", b"9000000 ab") == b"ab" * 9_000_000


def test_a_message_above_the_limit_is_refused(channel: grpc.Channel) -> None:
    for compression in (grpc.Compression.NoCompression, grpc.Compression.Gzip):
        code, text = refused(channel, "Echo", b"x" * (LIMIT + 1), compression=compression)
        assert code == "RESOURCE_EXHAUSTED"
        assert "larger than max" in text
    assert ask(channel, "Echo", b"well") == b"well"


@pytest.mark.parametrize("way", [grpc.Compression.Gzip, grpc.Compression.Deflate])
def test_compressed_requests_are_read(channel: grpc.Channel, way: grpc.Compression) -> None:
    for body in (b"abc" * 1000, bytes(range(256)) * 4000):
        assert ask(channel, "Echo", body, compression=way) == body


@pytest.mark.parametrize("text", ["plain", "50 %, {a}", "ä\n漢", "x" * 1024, ""])
def test_codes_and_texts_of_errors_arrive(channel: grpc.Channel, text: str) -> None:
    for code in ("INVALID_ARGUMENT", "UNAVAILABLE", "DATA_LOSS"):
        assert refused(channel, "Fail", f"{code} {text}".encode()) == (code, text)


def test_an_unknown_method_is_unimplemented(channel: grpc.Channel) -> None:
    assert refused(channel, "Nothing", b"") == ("UNIMPLEMENTED", "Method not found!")


def test_handlers_read_metadata(channel: grpc.Channel) -> None:
    sent = (("x-api-key", "abc"), ("x-api-key", "d e"), ("raw-bin", b"\0\xff"))
    assert ask(channel, "Key", b"x-api-key", metadata=sent) == b"['abc', 'd e']"
    assert ask(channel, "Key", b"raw-bin", metadata=sent) == rb"[b'\x00\xff']"
    assert ask(channel, "Key", b"x-api-key") == b"[]"


def test_a_deadline_reaches_the_handler_and_ends_it(
    running: fake.Running, channel: grpc.Channel
) -> None:
    call = channel.unary_unary("/fake.Fake/Wait")
    with pytest.raises(grpc.RpcError) as caught:
        call(b"30", timeout=0.2)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert running.seen.cancelled.acquire(timeout=10)
    assert 0 < running.seen.deadlines[-1] < 0.25  # clients round up
    assert call(b"0") == b"done"
    assert running.seen.deadlines[-1] is None


def test_cancelling_ends_the_handler(running: fake.Running, channel: grpc.Channel) -> None:
    while running.seen.started.acquire(blocking=False):
        pass
    call = channel.unary_unary("/fake.Fake/Wait").future(b"30")
    assert running.seen.started.acquire(timeout=10)
    call.cancel()
    assert running.seen.cancelled.acquire(timeout=10)
    assert ask(channel, "Echo", b"well") == b"well"


def test_many_calls_at_a_time_on_one_channel(channel: grpc.Channel) -> None:
    def one(number: int) -> bytes:
        return ask(channel, "Echo", b"%d," % number * (1 + number * 600))

    with ThreadPoolExecutor(50) as pool:
        answers = list(pool.map(one, range(100)))
    assert answers == [b"%d," % n * (1 + n * 600) for n in range(100)]


@pytest.mark.parametrize("back_end", ["grpcio", "lean"])
def test_running_calls_end_before_the_server(back_end: str) -> None:
    make = fake.grpcio if back_end == "grpcio" else fake.lean
    with (
        make() as running,
        grpc.insecure_channel(f"127.0.0.1:{running.port}") as channel,
    ):
        call = channel.unary_unary("/fake.Fake/Wait").future(b"0.3")
        late = channel.unary_unary("/fake.Fake/Wait").future(b"30")
        assert running.seen.started.acquire(timeout=10)
        assert running.seen.started.acquire(timeout=10)
        stopping = running.stop(0.8)
        assert call.result(10) == b"done"
        stopping.result(20)
        with pytest.raises(grpc.RpcError):
            late.result(10)
        assert running.seen.cancelled.acquire(timeout=10)
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary("/fake.Fake/Echo")(b"", timeout=5)
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
