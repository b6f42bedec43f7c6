"""Damaged and meaningless requests: each gets an answer, and none disturbs the server."""

from __future__ import annotations

import contextlib
import http.client
import json
import math
import random
import socket
from collections import Counter

import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from tests.serving.fuzzing import CASES, grpc_case, http_case, rest_case, watched
from tests.serving.running import Server

_SECONDS = 20  # within which each must have its answer


@pytest.mark.timeout(60 + CASES // 10)
def test_damaged_grpc_requests(server: Server) -> None:
    random_ = random.Random(1)
    told: Counter[str] = Counter()
    for _ in watched(server):
        path, body = grpc_case(random_)
        try:
            server.channel.unary_unary(path)(body, timeout=_SECONDS)
            told["OK"] += 1
        except grpc.RpcError as error:
            told[error.code().name] += 1
            if error.code() is grpc.StatusCode.INTERNAL:
                assert error.details() == "Unable to parse the request.", (path, body)
    assert {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "INTERNAL", "FAILED_PRECONDITION"} <= told.keys()
    assert told.keys() <= {
        *("OK", "INVALID_ARGUMENT", "NOT_FOUND", "INTERNAL", "FAILED_PRECONDITION"),
        *("UNIMPLEMENTED", "OUT_OF_RANGE"),
    }


@pytest.mark.timeout(60 + CASES // 10)
def test_damaged_rest_requests(server: Server) -> None:
    random_ = random.Random(2)
    codes: Counter[int] = Counter()
    connection = http.client.HTTPConnection("127.0.0.1", server.rest_port, timeout=_SECONDS)
    with contextlib.closing(connection):
        for _ in watched(server):
            path, body, headers = rest_case(random_)
            connection.request("POST", path, body, headers)
            answer = connection.getresponse()
            text = answer.read()
            codes[answer.status] += 1
            if answer.status != 200:
                # What is wrong with a version's number is told by the code alone.
                assert "99999" in path or json.loads(text)["error"], (path, body)
    assert {200, 400, 404} <= codes.keys() <= {200, 400, 404, 413, 501}


@pytest.mark.timeout(60 + CASES // 10)
def test_damaged_http(server: Server) -> None:
    random_ = random.Random(3)
    starts: Counter[bytes] = Counter()
    for _ in watched(server):
        with socket.create_connection(("127.0.0.1", server.rest_port), _SECONDS) as one:
            one.sendall(http_case(random_))
            with contextlib.suppress(OSError):  # it may be closed already
                one.shutdown(socket.SHUT_WR)
            answer = b""
            with contextlib.suppress(ConnectionResetError):
                while part := one.recv(65536):
                    answer += part
            starts[answer[:12]] += 1
    assert {b"HTTP/1.1 200", b"HTTP/1.1 400", b"HTTP/1.1 404"} <= starts.keys()
    assert b"HTTP/1.1 500" not in starts


def _same(given: object, answered: object) -> bool:
    if isinstance(given, list):
        return len(given) == len(answered) and all(map(_same, given, answered))
    if isinstance(given, float) and math.isnan(given):
        return math.isnan(answered)
    return given == answered and type(given) is type(answered)


_LEAVES = {
    "f64": some.floats(allow_subnormal=False),
    "i64": some.integers(-(2**63), 2**63 - 1),
    "bool": some.booleans(),
    "text": some.text(),
}
_COLUMNS = some.fixed_dictionaries(
    {
        name: some.one_of(
            leaf,
            some.lists(leaf, max_size=4),
            some.lists(some.tuples(leaf, leaf).map(list), min_size=1, max_size=3),
        )
        for name, leaf in _LEAVES.items()
    }
)


@settings(
    max_examples=max(60, CASES // 20),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(columns=_COLUMNS)
def test_what_is_sent_as_json_comes_back(server: Server, columns: dict) -> None:
    """The model gives back its inputs."""
    rest = {"f32": 1.0, "i32": 2, "u8": 3}
    body = json.dumps({"inputs": {**columns, **rest}}).encode()
    answer = server.post("/v1/models/types:predict", body)
    assert answer.ok, answer.text
    outputs = json.loads(answer.content)["outputs"]
    for name, value in columns.items():
        assert _same(value, outputs[f"{name}_out"]), name
