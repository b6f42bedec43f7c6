"""HTTP/1 as no client should speak it."""

from __future__ import annotations

import re
import socket

import pytest

from tests.serving.attacks.watching import bystanders
from tests.serving.running import Server

BODY = b'{"instances": [{"a": 1, "b": 2}]}'
HEAD = b"POST /v1/models/two_inputs:predict HTTP/1.1\r\nhost: x\r\n"
HEAD += b"content-length: %d\r\n" % len(BODY)


def exchange(server: Server, *parts: bytes, ends: bytes = b"}") -> bytes:
    """What comes, up to these bytes or the end."""
    with socket.create_connection(("127.0.0.1", server.rest_port), timeout=20) as client:
        found = b""
        try:
            for part in parts:
                client.sendall(part)
            while not found.endswith(ends) and (got := client.recv(65536)):
                found += got
        except (ConnectionResetError, BrokenPipeError):
            pass
        return found


UPGRADES = {
    "curl --http2": b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    b"HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\r\n",
    "websocket": b"connection: keep-alive, Upgrade\r\nupgrade: websocket\r\n",
}


@pytest.mark.parametrize("case", UPGRADES)
@pytest.mark.parametrize("pieces", [1, 3])
def test_a_request_for_another_protocol_is_answered_as_it_is(
    attacked: Server, case: str, pieces: int
) -> None:
    whole = HEAD + UPGRADES[case] + b"\r\n" + BODY
    size = -(-len(whole) // pieces)
    found = exchange(attacked, *(whole[i : i + size] for i in range(0, len(whole), size)))
    assert found.startswith(b"HTTP/1.1 200 "), found
    assert b'"sum":3.0' in found


def test_after_an_upgrade_that_was_ignored_the_connection_goes_on(attacked: Server) -> None:
    whole = HEAD + UPGRADES["curl --http2"] + b"\r\n" + BODY
    found = exchange(attacked, whole + HEAD + b"\r\n" + BODY.replace(b"1", b"7"), ends=b"9.0}]\n}")
    assert found.count(b"HTTP/1.1 200 OK") == 2
    assert found.index(b'"sum":3.0') < found.index(b'"sum":9.0')


@pytest.mark.parametrize("is_behind_a_body", [False, True])
def test_wishes_for_another_protocol_by_the_thousand(
    attacked: Server, is_behind_a_body: bool
) -> None:
    wish = b"GET /livez HTTP/1.1\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n"
    last = b"GET /none HTTP/1.1\r\nconnection: close\r\n\r\n"
    parts = [wish * 1000 + last]
    if is_behind_a_body:  # of which more is read at a time
        length = b"content-length: %d\r\n" % (len(BODY) + 60_000)
        head = HEAD.replace(b"content-length: %d\r\n" % len(BODY), length)
        parts = [head + b"\r\n" + BODY + b" " * 30_000, b" " * 30_000 + parts[0]]
    with bystanders(attacked) as others:
        found = exchange(attacked, *parts, ends=b"never")
        others.served(3)
    assert found.count(b"HTTP/1.1 200 OK") == 1000 + is_behind_a_body
    assert b"HTTP/1.1 404 " in found
    assert "Traceback" not in attacked.log.read_text()


def test_connect_in_its_turn_and_out_of_it(attacked: Server) -> None:
    connect = b"CONNECT elsewhere:443 HTTP/1.1\r\nhost: x\r\n\r\n"
    body = b'{"instances": [1.0]}'
    slow = b"POST /v1/models/slow:predict HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(body)
    after = b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n"
    for before, answers in ((b"", [b"400"]), (slow + body, [b"200", b"400"])):
        found = exchange(attacked, before + connect + after, ends=b"never")
        assert re.findall(rb"HTTP/1.1 (\d+)", found) == answers
    assert "Traceback" not in attacked.log.read_text()


def test_http_1_0_is_not_told_to_go_on(attacked: Server) -> None:
    head = HEAD.replace(b"HTTP/1.1", b"HTTP/1.0") + b"expect: 100-continue\r\n\r\n"
    assert exchange(attacked, head + BODY).startswith(b"HTTP/1.1 200 ")
    head = HEAD + b"expect: 100-continue\r\n\r\n"
    assert exchange(attacked, head + BODY).startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 ")


@pytest.mark.full
def test_addresses_of_many_bytes_are_not_kept(attacked: Server) -> None:
    """Neither by the thousand."""
    with bystanders(attacked, growth=48 * 2**20) as others:
        for number in range(1000):
            found = attacked.get(f"/v1/models/{number:06d}" + "a" * 60_000)
            assert found.status_code == 404
        others.served(3)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (b"GET /v1/models/two_inputs/versions/%s HTTP/1.1\r\nhost: x\r\n\r\n", 400),
        (b"GET /monitoring/signatures.json?model=m&version=%s HTTP/1.1\r\nhost: x\r\n\r\n", 400),
        (b"POST /v1/models/two_inputs/versions/%s:predict HTTP/1.1\r\nhost: x\r\n\r\n", 400),
        (b"POST /v1/models/m:predict HTTP/1.1\r\nhost: x\r\ncontent-length: %s\r\n\r\n", 400),
    ],
)
def test_a_number_of_thousands_of_digits(attacked: Server, request_: bytes, code: int) -> None:
    with bystanders(attacked) as others:
        for digit in (b"1", b"0"):
            found = exchange(attacked, request_ % (digit * 5000))
            assert found[9:12] in (b"%d" % code, b"404", b"200"), found
        others.served(3)
    assert "Traceback" not in attacked.log.read_text()


@pytest.mark.parametrize("number", [b"1%s", b"-9%s", b"1.%se"])
@pytest.mark.parametrize("after", [b"", b", NaN"])
def test_json_with_a_number_of_thousands_of_digits(
    attacked: Server, number: bytes, after: bytes
) -> None:
    body = b'{"instances": [{"a": 1, "b": [%s%s]}]}' % (number % (b"7" * 5000), after)
    assert attacked.post("/v1/models/two_inputs:predict", body).status_code == 400
    assert "Traceback" not in attacked.log.read_text()


def test_one_error_does_not_fill_the_log(attacked: Server) -> None:
    """Whatever is asked a thousand times."""
    size = attacked.log.stat().st_size
    for path in ("/v1/models/none:predict", "/v1/models/%ff/versions/9:predict"):
        for _ in range(500):
            attacked.post(path, b'{"instances": [' + b"x" * 1000)
    assert attacked.log.stat().st_size - size < 50_000
