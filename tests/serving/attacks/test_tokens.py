"""Who has no token is refused before anything of its request is waited for, or read."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from estimand.serving.lean import frames
from tests.serving.attacks.test_large_requests import PREDICT
from tests.serving.attacks.watching import bystanders
from tests.serving.lean.fake import Raw
from tests.serving.running import Server

TOKEN = "0123456789abcdef"


@pytest.fixture(scope="module", params=["lean", "grpcio"])
def guarded(
    request: pytest.FixtureRequest, attacked_models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("tokens")
    (folder / "tokens").write_text(TOKEN + "\n")
    running = Server(
        folder / "log",
        "--model_name=two_inputs",
        f"--model_base_path={attacked_models / 'two_inputs'}",
        f"--grpc_backend={request.param}",
        f"--auth_tokens_file={folder / 'tokens'}",
    )
    running.tokens = folder / "tokens"
    try:
        running.wait_until_ready()
        yield running
    finally:
        assert running.stop() == 0


def test_a_call_without_a_token_is_refused_before_its_message(guarded: Server) -> None:
    with bystanders(guarded, metadata=(("x-api-key", TOKEN),)) as others:
        for given in ({}, {"x_api_key": "guessed"}, {"authorization": "Bearer no"}):
            with Raw(guarded.port) as raw:
                raw.send(raw.opening(1, path=PREDICT, **given))
                headers, _ = raw.answer(1)
                assert headers["grpc-status"] == "16"
        others.served(5)


def test_a_call_with_a_token_is_waited_for(guarded: Server) -> None:
    with Raw(guarded.port) as raw:
        raw.send(raw.opening(1, path=PREDICT, x_api_key=TOKEN))
        raw.send(frames.frame(frames.DATA, frames.END_STREAM, 1, b"\0\0\0\0\0"))
        assert raw.answer(1)[0]["grpc-status"] == "3"  # an empty request: it was read


def test_health_needs_no_token(guarded: Server) -> None:
    with Raw(guarded.port) as raw:
        raw.send(raw.call(1, b"", path="/grpc.health.v1.Health/Check"))
        assert raw.answer(1)[0]["grpc-status"] == "0"


def test_rest_without_a_token_is_refused_before_its_body(guarded: Server) -> None:
    head = b"POST /v1/models/two_inputs:predict HTTP/1.1\r\nhost: x\r\n"
    head += b"content-length: 100000000\r\nexpect: 100-continue\r\n\r\n"
    with socket.create_connection(("127.0.0.1", guarded.rest_port), timeout=20) as client:
        client.sendall(head)
        assert client.recv(65536).startswith(b"HTTP/1.1 401 ")


def test_a_token_that_was_taken_away_is_refused_on_an_open_connection(guarded: Server) -> None:
    """Headers that were judged before are judged again when the tokens change."""
    other = "fedcba9876543210"
    with Raw(guarded.port) as raw:
        numbers = iter(range(1, 10_000, 2))

        def status(token: str) -> str:
            stream = next(numbers)
            raw.send(raw.call(stream, b"", path=PREDICT, x_api_key=token))
            return raw.answer(stream)[0]["grpc-status"]

        assert [status(TOKEN), status(TOKEN), status(other)] == ["3", "3", "16"]
        guarded.tokens.write_text(other + "\n")
        guarded.wait_until(lambda: status(other) == "3")
        assert status(TOKEN) == "16"
        guarded.tokens.write_text(TOKEN + "\n")
        guarded.wait_until(lambda: status(TOKEN) == "3")
