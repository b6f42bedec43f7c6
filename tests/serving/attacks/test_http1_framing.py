"""Requests that two readers could take for different ones, or that cost more than they say.

Each is answered so that nothing of one request can become part of another, and the connection
ends where its framing is in doubt.
"""

from __future__ import annotations

import gzip
import socket
import ssl

import pytest

from tests.serving.attacks.test_http1 import BODY, exchange
from tests.serving.attacks.watching import bystanders
from tests.serving.running import Server

START = b"POST /v1/models/two_inputs:predict HTTP/1.1\r\nhost: x\r\n"
LENGTH = b"content-length: %d\r\n" % len(BODY)
CHUNKED = b"transfer-encoding: chunked\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n"


def chunks(*parts: bytes, trailers: bytes = b"") -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(p), p) for p in parts) + b"0\r\n" + trailers + b"\r\n"


DOUBTFUL = {
    "both lengths": START + LENGTH + CHUNKED + b"\r\n" + chunks(BODY),
    "both lengths, the other way": START + CHUNKED + b"content-length: 4\r\n\r\n" + chunks(BODY),
    "two lengths": START + LENGTH + b"content-length: 3\r\n\r\n" + BODY,
    "the same length twice": START + LENGTH + LENGTH + b"\r\n" + BODY,
    "a list of lengths": START + b"content-length: 33, 33\r\n\r\n" + BODY,
    "a length with a sign": START + b"content-length: +33\r\n\r\n" + BODY,
    "a length in hexadecimal": START + b"content-length: 0x21\r\n\r\n" + BODY,
    "chunked twice": START + CHUNKED + CHUNKED + b"\r\n" + chunks(BODY),
    "chunked, not last": START + b"transfer-encoding: chunked, gzip\r\n\r\n" + chunks(BODY),
    "nearly chunked": START + LENGTH + b"transfer-encoding: xchunked\r\n\r\n" + BODY,
    "a space before the colon": START + LENGTH + b"transfer-encoding : chunked\r\n\r\n" + BODY,
    "a folded header": START + LENGTH + b"transfer-encoding:\r\n chunked\r\n\r\n" + BODY,
    "a bare line feed": START + LENGTH + b"x: y\ntransfer-encoding: chunked\r\n\r\n" + BODY,
    "a bare carriage return": START + LENGTH + b"x: y\rz: w\r\n\r\n" + BODY,
    "a null in a header": START + LENGTH + b"x: \0\r\n\r\n" + BODY,
    "a chunk with a negative size": START + CHUNKED + b"\r\n-1\r\n" + BODY,
    "a chunk of 2 ** 64 bytes": START + CHUNKED + b"\r\n10000000000000000\r\n" + BODY,
    "a chunk without its end": START + CHUNKED + b"\r\n3\r\n{}}0\r\n\r\n",
    "a length among the trailers": START
    + CHUNKED
    + b"\r\n"
    + chunks(BODY, trailers=b"content-length: 5\r\n"),
}


@pytest.mark.parametrize("case", DOUBTFUL)
def test_a_request_of_doubtful_length_ends_its_connection(attacked: Server, case: str) -> None:
    found = exchange(attacked, DOUBTFUL[case] + SMUGGLED, ends=b"never")
    assert found.startswith(b"HTTP/1.1 400 "), found
    assert found.count(b"HTTP/1.1") == 1
    assert b"connection: close" in found


HARMLESS = {
    "trailers": START + CHUNKED + b"\r\n" + chunks(BODY, trailers=b"authorization: Bearer x\r\n"),
    "an extension of a chunk": START
    + CHUNKED
    + b"\r\n%x;a=b\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY),
    "an address with a host": START.replace(b"/v1", b"http://elsewhere/v1")
    + LENGTH
    + b"\r\n"
    + BODY,
    "a byte in each chunk": START
    + CHUNKED
    + b"\r\n"
    + chunks(*(BODY[i : i + 1] for i in range(len(BODY)))),
    "something behind the zipped": START
    + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % (len(gzip.compress(BODY)) + 4)
    + gzip.compress(BODY)
    + b"junk",
}


@pytest.mark.parametrize("case", HARMLESS)
def test_what_is_unusual_and_clear_is_answered_and_the_connection_goes_on(
    attacked: Server, case: str
) -> None:
    found = exchange(
        attacked,
        HARMLESS[case] + START + LENGTH + b"\r\n" + BODY.replace(b"1", b"7"),
        ends=b"9.0}]\n}",
    )
    assert found.count(b"HTTP/1.1 200 OK") == 2, found
    assert found.index(b'"sum":3.0') < found.index(b'"sum":9.0')


def test_what_is_no_request_is_told_after_the_answers_that_are_due(attacked: Server) -> None:
    found = exchange(attacked, START + LENGTH + b"\r\n" + BODY + b"nonsense\r\n\r\n", ends=b"never")
    assert found.index(b'"sum":3.0') < found.index(b"HTTP/1.1 400 ")


def test_a_refused_client_hears_it_though_it_goes_on_sending(attacked: Server) -> None:
    """A reset would overtake the answer."""
    head = START + b"content-length: 99999999999\r\n\r\n"
    for _ in range(20):
        found = exchange(attacked, head, *[bytes(65536)] * 8, ends=b"never")
        assert found.startswith(b"HTTP/1.1 413 "), found


def test_a_body_of_a_million_chunks(attacked: Server) -> None:
    attack = START + CHUNKED + b"\r\n" + b"1\r\n \r\n" * 40_000
    with bystanders(attacked) as others:
        for _ in range(10):
            found = exchange(attacked, attack, ends=b"never")
            assert found.startswith(b"HTTP/1.1 413 "), found
        others.served(5)


@pytest.mark.parametrize("trailer", [b"x" * 65_536, b"a:b\r\n" * 13_000])
def test_trailers_without_end(attacked: Server, trailer: bytes) -> None:
    """Nobody reads them: one that is kept while it grows takes time that grows with its square."""
    attack = START + CHUNKED + b"\r\n1\r\n{\r\n0\r\nx: "
    with bystanders(attacked) as others:
        found = exchange(attacked, attack, *[trailer] * 64, ends=b"never")
        assert found.startswith(b"HTTP/1.1 431 ")
        others.served(5)


def test_extensions_of_chunks_without_end(attacked: Server) -> None:
    attack = START + CHUNKED + b"\r\n1;x="
    with bystanders(attacked) as others:
        found = exchange(attacked, attack, *[b"x" * 65_536] * 100, ends=b"never")
        assert found.startswith(b"HTTP/1.1 431 ")
        others.served(5)


def test_a_body_in_chunks_may_be_large(attacked: Server) -> None:
    """What is beside it grows with it."""
    spaces = chunks(*[b" " * 100] * 30_000, BODY)
    found = exchange(attacked, START + CHUNKED + b"\r\n" + spaces)
    assert found.startswith(b"HTTP/1.1 200 "), found[:200]


@pytest.mark.parametrize("header", [b"a:\r\n", b"a: b\r\n", b"cookie: x\r\n"])
def test_a_head_of_thousands_of_headers(attacked: Server, header: bytes) -> None:
    attack = b"GET /livez HTTP/1.1\r\nhost: x\r\n" + header * (60_000 // len(header)) + b"\r\n"
    with bystanders(attacked) as others:
        for _ in range(20):
            assert exchange(attacked, attack, ends=b"never").startswith(b"HTTP/1.1 431 ")
        others.served(5)


def test_requests_by_the_thousand_from_a_client_that_takes_no_answer(attacked: Server) -> None:
    """They are answered as it takes the answers, and not into the server's memory."""
    page = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"
    with bystanders(attacked, growth=48 * 2**20) as others:
        clients = [socket.create_connection(("127.0.0.1", attacked.rest_port)) for _ in range(8)]
        for client in clients:
            client.settimeout(1.0)
            try:
                for _ in range(100):
                    client.sendall(page * 1000)
            except TimeoutError:
                pass
        others.served(20)
        for client in clients:
            client.close()


def test_many_small_requests_in_one_read_do_not_hold_up_the_others(attacked: Server) -> None:
    attack = b"GET /livez HTTP/1.1\r\n\r\n" * 10_000
    with bystanders(attacked) as others:
        found = b""
        with socket.create_connection(("127.0.0.1", attacked.rest_port), timeout=60) as client:
            client.sendall(attack)
            while found.count(b"ok\n") < 10_000 and (got := client.recv(2**20)):
                found += got
        assert found.count(b"HTTP/1.1 200 OK") == 10_000
        others.served(5)


@pytest.mark.parametrize("front", ["port", "rest_port"])
@pytest.mark.parametrize(
    "hello",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
        bytes.fromhex("1603010200010001fc0303"),
        b"\0" * 100,
    ],
    ids=["http2", "http1", "tls", "zeros"],
)
def test_another_protocol_at_the_port(attacked: Server, front: str, hello: bytes) -> None:
    with bystanders(attacked) as others:
        clients = []
        for _ in range(20):
            client = socket.create_connection(("127.0.0.1", getattr(attacked, front)), timeout=20)
            client.sendall(hello)
            clients.append(client)
        others.served(5)
        for client in clients:
            client.close()
    assert "Traceback" not in attacked.log.read_text()


def test_a_handshake_that_never_ends(attacked: Server) -> None:
    """Of TLS, to a server that speaks none: as any head that never ends."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", attacked.rest_port), timeout=20) as client,
        pytest.raises((ssl.SSLError, ConnectionError)),
    ):
        context.wrap_socket(client)


JSON = {
    "a key twice": (b'{"instances": [{"a": 1, "b": 2}], "instances": [{"a": 5, "b": 2}]}', 200),
    "a key of a row twice": (b'{"instances": [{"a": 1, "a": 5, "b": 2}]}', 200),
    "a lone surrogate": (b'{"instances": [{"a": "\\ud800", "b": 2}]}', 400),
    "a surrogate as the name": (b'{"signature_name": "\\udfff", "instances": [1]}', 400),
    "an exponent of eleven digits": (b'{"instances": [{"a": 1e99999999999, "b": 2}]}', 400),
    "the same, below": (b'{"instances": [{"a": 1e-99999999999, "b": 2}]}', 200),
    "zeros by the thousand": (
        b'{"instances": [{"a": 1.' + b"0" * 100_000 + b', "b": 2}]}',
        200,
    ),
    "what is no UTF-8": (b'{"instances": [{"a": "\xff\xfe", "b": 2}]}', 400),
    "nulls": (b'{"instances": [{"a": null, "b": 2}]}', 400),
    "two bodies": (b'{"instances": [{"a": 5, "b": 2}]}{"instances": [{"a": 1, "b": 2}]}', 200),
}


@pytest.mark.parametrize("case", JSON)
def test_json_that_readers_disagree_about(attacked: Server, case: str) -> None:
    body, code = JSON[case]
    with bystanders(attacked) as others:
        for _ in range(20):
            answer = attacked.post("/v1/models/two_inputs:predict", body)
            assert answer.status_code == code, answer.text
        others.served(3)
    assert "Traceback" not in attacked.log.read_text()
