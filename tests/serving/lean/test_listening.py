"""TLS, UNIX sockets, health, compressed answers, and blocks of headers that are known."""

from __future__ import annotations

import asyncio
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import grpc
import hpack
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from estimand.core.errors import ConfigError, MissingExtraError
from estimand.serving.flags import Flags
from estimand.serving.lean.headers import HeaderReader, judge
from estimand.serving.lean.health import Health
from estimand.serving.lean.limits import Limits
from estimand.serving.lean.listener import LeanServer
from estimand.serving.lean.streams import Unary
from estimand.serving.process.log_floods import Floods
from estimand.serving.process.server import _Server
from tests.serving.lean import fake

DATA = Path(__file__).parent / "data"
ECHO = "/fake.Fake/Echo"


def test_the_front_needs_neither_tensorflow_nor_grpcio() -> None:
    program = (
        "import sys, estimand.serving.lean.listener\n"
        "print(sorted({'tensorflow', 'grpc', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


# ---------------------------------------------------------------- the flag


def test_an_unknown_back_end_is_refused() -> None:
    with pytest.raises(ConfigError, match="--grpc_backend=fast is unknown"):
        Flags(model_base_path="/m", grpc_backend="fast").check()


def test_auto_is_lean_where_it_can_do_all_that_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    known = "grpc.max_connection_age_ms=5000, grpc.default_compression_algorithm=2"
    assert Flags().is_lean
    assert Flags(grpc_channel_arguments=known).is_lean
    more = f"{known},grpc.http2.bdp_probe=0"
    assert not Flags(grpc_channel_arguments=more).is_lean
    assert Flags(grpc_channel_arguments=more, grpc_backend="lean").is_lean
    assert not Flags(grpc_backend="grpcio").is_lean
    monkeypatch.setitem(sys.modules, "hpack", None)
    assert not Flags().is_lean


def listen_lean(flags: Flags) -> None:
    async def main() -> None:
        await _Server(flags, print, Floods())._listen_lean(manager=None)

    asyncio.run(main())


def test_a_port_that_is_taken_is_told() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        flags = Flags(port=taken.getsockname()[1], grpc_backend="lean")
        with pytest.raises(ConfigError, match=r"gRPC cannot listen: .*Set another --port"):
            listen_lean(flags)


def test_the_lean_back_end_names_the_package_it_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hpack", None)
    with pytest.raises(MissingExtraError, match=r"estimand\[serve\]"):
        listen_lean(Flags(grpc_backend="lean"))


# ---------------------------------------------------------------- sockets


def tls() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(DATA / "localhost.crt", DATA / "localhost.key")
    return context


def test_tls_with_grpcio_as_client() -> None:
    credentials = grpc.ssl_channel_credentials((DATA / "localhost.crt").read_bytes())
    with fake.lean(tls=tls()) as running:
        address = f"localhost:{running.port}"
        with grpc.secure_channel(address, credentials) as channel:
            call = channel.unary_unary(ECHO)
            assert call(b"a", timeout=20) == b"a"
            assert call(b"b" * 1_000_000, timeout=20) == b"b" * 1_000_000


def test_tls_without_h2_is_closed() -> None:
    context = ssl.create_default_context(cafile=DATA / "localhost.crt")
    with fake.lean(tls=tls()) as running:
        plain = fake.Raw(running.port, greet=False)
        with context.wrap_socket(plain.socket, server_hostname="localhost") as secure:
            assert secure.selected_alpn_protocol() is None
            try:
                assert secure.recv(100) == b""
            except OSError as error:  # reset
                assert isinstance(error, ConnectionResetError | ssl.SSLEOFError)


def test_a_unix_socket_is_made_anew_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "socket"

    async def main() -> bytes:
        async def echo(body, deadline, metadata) -> bytes:
            return body

        killed = await asyncio.get_running_loop().create_unix_server(asyncio.Protocol, path)
        assert path.is_socket()
        server = LeanServer({ECHO: Unary(echo)})
        await server.listen_unix(str(path))
        async with grpc.aio.insecure_channel(f"unix:{path}") as channel:
            answer = await channel.unary_unary(ECHO)(b"a", timeout=20)
        await server.stop(1.0)
        killed.close()
        return answer

    assert asyncio.run(main()) == b"a"
    assert not path.exists()


# ---------------------------------------------------------------- health


def test_health_is_told_and_watched() -> None:
    states = health_pb2.HealthCheckResponse
    made: list[Health] = []

    def more():
        made.append(Health())
        return made[0].table()

    with fake.lean(more=more) as running:
        (health,) = made
        running.run(health.set("a", states.SERVING))
        with grpc.insecure_channel(f"127.0.0.1:{running.port}") as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            request = health_pb2.HealthCheckRequest
            assert stub.Check(request(service="a"), timeout=20).status == states.SERVING
            with pytest.raises(grpc.RpcError) as caught:
                stub.Check(request(service="b"), timeout=20)
            assert caught.value.code() is grpc.StatusCode.NOT_FOUND
            watches = [stub.Watch(request(service=name), timeout=20) for name in "ab"]
            assert [next(w).status for w in watches] == [states.SERVING, states.SERVICE_UNKNOWN]
            running.run(health.set("b", states.SERVING))
            assert next(watches[1]).status == states.SERVING
            watches[1].cancel()
            running.run(health.enter_graceful_shutdown())
            running.run(health.set("a", states.SERVING))  # too late
            assert next(watches[0]).status == states.NOT_SERVING
            running.stop(10.0).result(5)  # watching does not keep it
            with pytest.raises(grpc.RpcError) as caught:
                next(watches[0])
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


# ---------------------------------------------------------------- compressed answers


def test_answers_are_compressed_when_asked_for() -> None:
    flags = Flags(grpc_channel_arguments="grpc.default_compression_algorithm=2")
    with fake.lean(Limits.of(flags)) as running:
        with grpc.insecure_channel(f"127.0.0.1:{running.port}") as channel:
            assert channel.unary_unary(ECHO)(b"a" * 1000, timeout=20) == b"a" * 1000
        with fake.Raw(running.port) as raw:
            raw.send(raw.call(1, b"a" * 1000, grpc_accept_encoding="identity, gzip"))
            headers, body = raw.answer(1)
            assert headers["grpc-encoding"] == "gzip"
            assert body[0] == 1 and len(body) < 100
            raw.send(raw.call(3, b"a"))
            assert raw.answer(3)[1] == b"\0\0\0\0\x01a"


# ---------------------------------------------------------------- header blocks


def reader() -> HeaderReader:
    return HeaderReader(lambda headers: judge(headers, {b"/p": 1}, 16_384), 16_384, lambda _: None)


HEADERS = [
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/p"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
]


def test_a_block_is_known_until_the_table_changes() -> None:
    encoder, reading = hpack.Encoder(), reader()
    first = encoder.encode(HEADERS)
    assert reading.read(first).method == 1
    assert not reading.known  # it has filled the table
    again = encoder.encode(HEADERS)
    assert len(again) < len(first)
    head = reading.read(again)
    assert reading.known == {again: head}
    reading.read(encoder.encode([*HEADERS, ("x", "1")]))
    assert not reading.known


def test_the_same_block_means_something_else_after_the_table_has_changed() -> None:
    """Each block is read by its bytes alone, with a decoder beside it as the judge."""
    encoder, reading, oracle = hpack.Encoder(), reader(), hpack.Decoder()
    encoder.header_table_size = 256  # entries come and go
    meanings = 0
    for number in range(300):
        value = "v" * 40 + str(number % 7 if number % 11 else number)
        block = encoder.encode([*HEADERS, ("x-key", value)])
        for _ in range(4):
            known = reading.known.get(block)
            expected = oracle.decode(block)
            got = known or reading.read(block)
            assert [(a.decode(), b.decode()) for a, b in got.headers] == list(expected)
            meanings += known is not None
            block = encoder.encode([*HEADERS, ("x-key", value)])
    assert meanings  # some were known


def test_a_change_of_the_tables_size_forgets_the_blocks() -> None:
    encoder, reading = hpack.Encoder(), reader()
    for _ in range(2):
        block = encoder.encode(HEADERS)
        reading.read(block)
    assert reading.known
    encoder.header_table_size = 0
    update = encoder.encode(HEADERS)
    assert reading.read(update).method == 1
    assert not reading.known


def test_channel_arguments_set_limits(caplog: pytest.LogCaptureFixture) -> None:
    arguments = "grpc.keepalive_time_ms=1500,grpc.max_concurrent_streams=7,grpc.so_reuseport=0"
    limits = Limits.of(Flags(grpc_channel_arguments=arguments, max_request_bytes=99))
    assert (limits.keepalive_seconds, limits.streams, limits.message_bytes) == (1.5, 7, 99)
    assert "grpc.so_reuseport means nothing to the lean back end" in caplog.text
