"""Small bodies that become large: who sends them is refused, and nobody else notices."""

from __future__ import annotations

import functools
import gzip
import threading

import grpc
import pytest
import requests
from tensorflow_serving.apis import (
    classification_pb2,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from tests.serving.attacks.watching import bystanders
from tests.serving.running import Server

MB = 2**20
START = b'{"instances": ['

ZIPPED = {"content-encoding": "gzip"}

# What they would become is told by the time it took, once: minutes, and gigabytes.
BODIES = {
    "lists": (START + b"[[[]],[[]]]," * MB + b"1]}", {413}),
    "numbers": (START + b"1.5," * (3 * MB) + b"1]}", {413}),
    "depth": (START + b"[" * MB, {400}),
    "blanks": (b" " * (65 * MB), {413}),
    "rows just within the bounds": (START + b'{"a":1,"b":2},' * 380_000 + b"1]}", {400}),
}


@functools.cache
def zipped(case: str) -> bytes:
    return gzip.compress(BODIES[case][0], 6)


@pytest.mark.parametrize("case", BODIES)
def test_a_gzip_body(attacked: Server, case: str) -> None:
    sent, expected = zipped(case), BODIES[case][1]
    assert len(sent) < 100_000
    url, codes = attacked.url("/v1/models/two_inputs:predict"), set()

    def send() -> None:
        codes.add(requests.post(url, sent, headers=ZIPPED, timeout=60).status_code)

    senders = [threading.Thread(target=send) for _ in range(2)]
    with bystanders(attacked, growth=500 * MB) as others:
        for sender in senders:
            sender.start()
        others.served(5)
        for sender in senders:
            sender.join()
    assert codes == expected


@pytest.mark.full
def test_a_body_of_moderate_size_does_not_wait_for_all_bombs(attacked: Server) -> None:
    bomb = gzip.compress(START + b" " * (60 * MB) + b"1]}")
    rows = [{"a": float(n), "b": 1.0} for n in range(8000)]
    url, ended = attacked.url("/v1/models/two_inputs:predict"), []

    def send() -> None:
        ended.append(requests.post(url, bomb, headers=ZIPPED, timeout=60).status_code)

    senders = [threading.Thread(target=send) for _ in range(15)]
    with bystanders(attacked, growth=500 * MB) as others:
        for sender in senders:
            sender.start()
        while not ended:  # the first of them: all others wait
            others.served(1)
        answer = attacked.post("/v1/models/two_inputs:predict", {"instances": rows})
        waiting = len(senders) - len(ended)
        for sender in senders:
            sender.join()
    assert answer.status_code == 200
    assert [row["sum"] for row in answer.json()["predictions"]] == [n + 1.0 for n in range(8000)]
    assert waiting > 5


def test_a_gzip_body_of_examples(attacked: Server) -> None:
    body = gzip.compress(b'{"examples": [' + b"{}," * (MB) + b"{}]}", 6)
    url = attacked.url("/v1/models/two_inputs:classify")
    with bystanders(attacked, growth=500 * MB) as others:
        assert requests.post(url, body, headers=ZIPPED, timeout=60).status_code == 413
        others.served(5)


def strings() -> predict_pb2.PredictRequest:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = "two_inputs"
    request.inputs["a"].dtype = 7
    request.inputs["a"].string_val.extend([b""] * (MB + 1000))
    return request


def examples() -> classification_pb2.ClassificationRequest:
    request = classification_pb2.ClassificationRequest()
    request.model_spec.name = "two_inputs"
    one = request.input.example_list.examples.add()
    request.input.example_list.examples.extend([one] * (MB + 1000))
    return request


@pytest.mark.parametrize(("make", "method"), [(strings, "Predict"), (examples, "Classify")])
def test_a_gzip_message_of_many_fields(attacked: Server, make, method: str) -> None:
    request = make()
    options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    with (
        grpc.insecure_channel(f"127.0.0.1:{attacked.port}", options) as channel,
        bystanders(attacked, growth=300 * MB) as others,
    ):
        call = getattr(prediction_service_pb2_grpc.PredictionServiceStub(channel), method)
        with pytest.raises(grpc.RpcError) as caught:
            call(request, timeout=60, compression=grpc.Compression.Gzip)
        others.served(5)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "fields" in caught.value.details()
