"""Requests that are known by their beginning."""

from __future__ import annotations

import numpy as np
from tensorflow_serving.apis import predict_pb2

from estimand.serving.grpc.known_requests import KnownRequests


def request(array: np.ndarray, model: str = "m", **more) -> predict_pb2.PredictRequest:
    made = predict_pb2.PredictRequest()
    made.model_spec.name = model
    tensor = made.inputs["x"]
    tensor.dtype = 1
    for size in array.shape:
        tensor.tensor_shape.dim.add(size=size)
    tensor.tensor_content = array.tobytes()
    for name, value in more.items():
        getattr(tensor, name).append(value)
    return made


def learn(known: KnownRequests, one: predict_pb2.PredictRequest) -> None:
    known.learn(one.SerializeToString(), one)


def test_other_numbers_in_the_same_shape_are_known() -> None:
    known = KnownRequests()
    learn(known, request(np.float32([[1, 2, 3]])))
    body = request(np.float32([[7, 8, 9]])).SerializeToString()
    found = known.find(body)
    assert found is not None
    assert (found.model, found.version, found.slot) == ("m", None, ("x", 1))
    assert found.array(body).tolist() == [[7, 8, 9]]


def test_another_model_shape_or_version_is_not_known() -> None:
    known = KnownRequests()
    learn(known, request(np.float32([[1, 2, 3, 4]])))
    versioned = request(np.float32([[1, 2, 3, 4]]))
    versioned.model_spec.version.value = 7
    for other in (
        request(np.float32([[1, 2, 3, 4]]), model="n"),
        request(np.float32([[1, 2], [3, 4]])),
        versioned,
    ):
        assert known.find(other.SerializeToString()) is None
    learn(known, versioned)
    found = known.find(versioned.SerializeToString())
    assert found is not None and found.version == 7


def test_a_request_that_goes_on_behind_its_content_is_not_learned() -> None:
    known = KnownRequests()
    filtered = request(np.float32([1, 2]))
    filtered.output_filter.append("y")
    for one in (request(np.float32([1, 2]), float_val=1.0), filtered):
        learn(known, one)
        assert known.find(one.SerializeToString()) is None


def test_how_many_are_known_is_bounded() -> None:
    known = KnownRequests()
    for number in range(20):
        learn(known, request(np.float32([1, 2]), model=f"{number:02}"))
    found = [
        known.find(request(np.float32([3, 4]), model=f"{number:02}").SerializeToString())
        for number in range(20)
    ]
    assert sum(one is not None for one in found) == 4
    long = request(np.float32([1, 2]), model="m" * 2000)
    learn(known, long)
    assert known.find(long.SerializeToString()) is None
