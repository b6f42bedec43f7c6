"""What other gRPC libraries ask of the lean back end, all of them the same."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from grpc_health.v1 import health_pb2
from tensorflow_serving.apis import predict_pb2

from tests.serving.interop.callers import CANNOT, TRANSPORTS, Caller, Outcome
from tests.serving.interop.conftest import TOKEN, running
from tests.serving.running import Server, predict_request

PREDICT = "/tensorflow.serving.PredictionService/Predict"
HEALTH = "/grpc.health.v1.Health/"
OK, CANCELLED, LATE, NOT_FOUND, EXHAUSTED, UNIMPLEMENTED = 0, 1, 4, 5, 8, 12
INTERNAL, GONE, WHO = 13, 14, 16


def addition(a: float, b: float = 1.0) -> bytes:
    return predict_request("two_inputs", a=np.float32([a]), b=np.float32([b])).SerializeToString()


def slow() -> bytes:
    return predict_request("slow", x=np.float32([1.0])).SerializeToString()


def sums(outcome: Outcome) -> list[list[float]]:
    """Of each request, the sums that it was answered with."""
    return [
        [predict_pb2.PredictResponse.FromString(b).outputs["sum"].float_val[0] for b in answers]
        for answers in outcome.answers
    ]


@pytest.fixture(params=TRANSPORTS)
def to(
    request: pytest.FixtureRequest, caller: Caller, plain: Server, secure: Server, keys: Path
) -> Caller:
    if request.param in CANNOT.get(caller.name, ()):
        pytest.skip(f"this {caller.name} cannot: {request.param}")
    if request.param == "tls":
        return caller.at(f"localhost:{secure.port}", keys / "ca.crt")
    return caller.at(f"unix:{plain.socket}" if request.param == "socket" else address(plain))


def address(server: Server) -> str:
    return f"127.0.0.1:{server.port}"


def test_answers_and_errors(to: Caller) -> None:
    found = to(PREDICT, addition(2.0, 3.0))
    assert (found.codes, sums(found)) == ([OK], [[5.0]])
    for name in ("none", "ü %"):  # the text is percent-encoded on its way
        found = to(PREDICT, predict_request(name).SerializeToString())
        assert found.codes == [NOT_FOUND]
        assert found.message == f"Servable not found for request: Latest({name})"
    assert to("/tensorflow.serving.PredictionService/None", b"").codes == [UNIMPLEMENTED]


def test_many_calls_at_once_on_one_connection(to: Caller) -> None:
    """More than the server allows at a time: the rest waits in the client."""
    requests = [addition(float(i)) for i in range(16)]
    found = to(PREDICT, *requests, calls=2000)
    assert set(found.codes) == {OK}
    assert sums(found) == [[i + 1.0] for i in range(16)]


def test_messages_of_50_megabytes(to: Caller) -> None:
    picture = np.random.default_rng(0).bytes(50 * 2**20)
    request = predict_request("bytes")
    request.inputs["image"].CopyFrom(tf.make_tensor_proto([picture]))
    found = to(PREDICT, request.SerializeToString(), addition(1.0), calls=2)
    assert found.codes == [OK, OK]
    large, small = (predict_pb2.PredictResponse.FromString(one[0]) for one in found.answers)
    assert large.outputs["image_bytes"].string_val[0] == picture
    assert small.outputs["sum"].float_val[0] == 2.0


@pytest.mark.parametrize("answers", ["plain", "compressed"])
def test_compressed_requests(caller: Caller, plain: Server, eager: Server, answers: str) -> None:
    to = caller.at(address(plain if answers == "plain" else eager))
    request = predict_request("two_inputs", a=np.zeros(10_000, "f"), b=np.ones(10_000, "f"))
    found = to(PREDICT, request.SerializeToString(), addition(5.0), calls=20, gzip=1)
    assert set(found.codes) == {OK}
    assert sums(found) == [[1.0], [6.0]]


def test_deadlines_and_cancelled_calls(to: Caller) -> None:
    assert set(to(PREDICT, slow(), calls=4, timeout=60).codes) == {LATE}
    assert set(to(PREDICT, slow(), calls=4, cancel=60).codes) == {CANCELLED}
    found = to(PREDICT, addition(1.0), timeout=60_000)
    assert (found.codes, sums(found)) == ([OK], [[2.0]])


def test_tokens_as_metadata(caller: Caller, guarded: Server) -> None:
    to = caller.at(address(guarded))
    refused = to(PREDICT, addition(1.0), calls=3)
    assert set(refused.codes) == {WHO}
    assert refused.message.startswith("This server asks for a token.")
    for token in (f"x-api-key:{TOKEN}", f"authorization:Bearer {TOKEN}"):
        more = ["trace-bin:\x01\x02,", "x-empty:", *(f"x-{i}:{'v' * 50}" for i in range(60))]
        found = to(PREDICT, addition(1.0), calls=50, metadata=[token, *more])
        assert (set(found.codes), sums(found)) == ({OK}, [[2.0]])
    much = [f"x-{i}:{'v' * 500}" for i in range(60)]
    found = to(PREDICT, addition(1.0), metadata=[f"x-api-key:{TOKEN}", *much])
    # Some libraries see for themselves that it is more than the server takes.
    assert found.codes in ([EXHAUSTED], [INTERNAL])


def test_health_is_asked_and_watched(to: Caller) -> None:
    states = health_pb2.HealthCheckResponse
    found = to(HEALTH + "Check", b"")
    assert [states.FromString(one).status for one in found.answers[0]] == [states.SERVING]
    assert to(HEALTH + "Check", b"\x0a\x04none").codes == [NOT_FOUND]
    found = to(HEALTH + "Watch", b"", stream=1)
    assert found.codes in ([CANCELLED], [OK])  # libraries differ on what they tell the canceller
    assert [states.FromString(one).status for one in found.answers[0]] == [states.SERVING]


def test_pings_keep_a_connection(caller: Caller, eager: Server) -> None:
    to = caller.at(address(eager))
    found = to(PREDICT, slow(), addition(1.0), calls=8, pause=150, keepalive=50)
    assert set(found.codes) == {OK}


def test_connections_that_the_server_ends_are_made_anew(caller: Caller, impatient: Server) -> None:
    to = caller.at(address(impatient))
    found = to(PREDICT, *(addition(float(i)) for i in range(4)), slow(), calls=40, pause=25)
    assert set(found.codes) == {OK}


def test_calls_are_answered_while_the_server_ends(
    caller: Caller, models: Path, tmp_path: Path
) -> None:
    with running(models, tmp_path) as server:
        calling = caller.at(address(server)).begin(
            PREDICT, [slow()], calls=24, pause=1, timeout=20_000
        )
        server.wait_until(lambda: 'model_name="slow"' in asked(server))
        server.process.send_signal(signal.SIGTERM)
        codes = calling.end().codes
    assert codes == sorted(codes)
    assert set(codes) == {OK, GONE}


def asked(server: Server) -> str:
    return server.get("/monitoring/prometheus/metrics").text
