"""Damaged requests: each gets an answer, and none disturbs the server."""

from __future__ import annotations

import random

import grpc
import numpy as np

from tests.serving.running import Server, predict_request

CASES = 300


def damaged(body: bytes, random_: random.Random) -> bytes:
    changed = bytearray(body)
    for _ in range(random_.randint(1, 4)):
        place = random_.randrange(len(changed))
        kind = random_.randrange(4)
        if kind == 0:
            changed[place] = random_.randrange(256)
        elif kind == 1:
            changed[place] ^= 1 << random_.randrange(8)
        elif kind == 2:
            del changed[place : place + random_.randint(1, 3)]
            changed = changed or bytearray(b"x")
        else:
            changed[place:place] = random_.randbytes(random_.randint(1, 3))
    return bytes(changed)


def test_damaged_grpc_requests(server: Server) -> None:
    random_ = random.Random(1)
    body = predict_request("two_inputs", a=np.float32([1, 2]), b=np.float32([3, 4]))
    call = server.channel.unary_unary("/tensorflow.serving.PredictionService/Predict")
    told = set()
    for _ in range(CASES):
        try:
            call(damaged(body.SerializeToString(), random_), timeout=20)
        except grpc.RpcError as error:
            told.add(error.code().name)
            if error.code() is grpc.StatusCode.INTERNAL:
                assert error.details() == "Unable to parse the request."
    assert {"INVALID_ARGUMENT", "NOT_FOUND", "INTERNAL"} <= told
    assert told <= {"INVALID_ARGUMENT", "NOT_FOUND", "INTERNAL", "FAILED_PRECONDITION"}
    assert server.prediction.Predict(body, timeout=20).outputs["sum"].float_val[:] == [4.0, 6.0]


def test_damaged_rest_requests(server: Server) -> None:
    random_ = random.Random(2)
    body = b'{"signature_name": "serving_default", "instances": [{"a": 1.5, "b": 2}]}'
    codes = set()
    for _ in range(CASES):
        answer = server.post("/v1/models/two_inputs:predict", damaged(body, random_))
        codes.add(answer.status_code)
        if not answer.ok:
            assert answer.json()["error"]
    assert codes == {200, 400}
    assert server.post("/v1/models/two_inputs:predict", body).ok
