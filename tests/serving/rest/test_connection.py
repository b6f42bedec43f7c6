"""However the bytes of a request come, the answer is the same; and answers come in order."""

from __future__ import annotations

import json
import re
import socket
import time

import pytest

from tests.serving.running import Server


def request(body: bytes, model: str = "half_plus_two", more: bytes = b"") -> bytes:
    path = f"/v1/models/{model}:predict".encode()
    length = b"content-length: %d\r\n" % len(body)
    return b"POST %b HTTP/1.1\r\nhost: x\r\n%b%b\r\n%b" % (path, length, more, body)


def answers(server: Server, count: int, *parts: bytes) -> list[tuple[bytes, bytes]]:
    """So many answers to what is sent in these parts: headers without the date, and bodies."""
    found = b""
    parsed = []
    with socket.create_connection(("127.0.0.1", server.rest_port), timeout=60) as client:
        for part in parts:
            client.sendall(part)
            time.sleep(0.05 if len(parts) > 1 else 0)  # so that it is read by itself
        while len(parsed) < count:
            head, end, rest = found.partition(b"\r\n\r\n")
            size = int(re.search(rb"content-length: (\d+)", head)[1]) if end else 0
            if end and len(rest) >= size:
                parsed.append((re.sub(rb"date: [^\r]*\r\n", b"", head), rest[:size]))
                found = rest[size:]
            elif part := client.recv(65536):
                found += part
            else:
                break
    return parsed


@pytest.mark.parametrize(
    ("model", "body", "status"),
    [
        ("half_plus_two", b'{"instances": [2.0, 4.0]}', 200),
        ("half_plus_two", b'{"inputs": 3.0}', 200),
        ("half_plus_two", b'{"instances": [2.0', 400),
        ("half_plus_two", b'{"signature_name": "none", "instances": [1.0]}', 400),
        ("two_inputs", b'{"instances": [{"a": 1, "b": 2}, {"a": 3}]}', 400),
        ("nobody", b'{"instances": [1.0]}', 404),
    ],
)
def test_in_one_piece_and_in_two_the_answer_is_the_same(
    server: Server, model: str, body: bytes, status: int
) -> None:
    whole = request(body, model)
    (in_one,) = answers(server, 1, whole)
    (in_two,) = answers(server, 1, whole[:-5], whole[-5:])
    assert in_one == in_two
    assert in_one[0].startswith(b"HTTP/1.1 %d " % status)


def test_requests_sent_without_waiting_are_answered_in_their_order(server: Server) -> None:
    given = [b'{"instances": [%d.0]}' % number for number in (2, 4, 6)]
    found = answers(server, 3, b"".join(map(request, given)))
    assert [json.loads(body)["predictions"] for _, body in found] == [[3.0], [4.0], [5.0]]


def test_after_a_refusal_the_connection_goes_on(server: Server) -> None:
    found = answers(server, 2, request(b"nonsense"), request(b'{"instances": [2.0]}'))
    assert json.loads(found[1][1]) == {"predictions": [3.0]}


def test_a_client_that_asks_for_the_end_gets_it(server: Server) -> None:
    sent = request(b'{"instances": [2.0]}', more=b"connection: close\r\n")
    found = answers(server, 2, sent)  # a second one never comes, for the connection ends
    assert [json.loads(body) for _, body in found] == [{"predictions": [3.0]}]
    assert b"connection: close" in found[0][0]


def test_a_client_that_leaves_in_the_middle_of_its_body_is_no_error_of_ours(
    server: Server,
) -> None:
    whole = request(b'{"instances": [2.0]}', model="two_inputs")
    with socket.create_connection(("127.0.0.1", server.rest_port), timeout=60) as client:
        client.sendall(whole[:-5])
    metrics = "/monitoring/prometheus/metrics"
    counted = 'request_count{model_name="two_inputs",status="CANCELLED"}'
    server.wait_until(lambda: counted in server.get(metrics).text)
    assert "Traceback" not in server.log.read_text()
