"""Requests that are wrong in as many ways as chance finds, and a watch over who gets them."""

from __future__ import annotations

import gzip
import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.core.framework import tensor_pb2, types_pb2
from tensorflow_serving.apis import (
    classification_pb2,
    get_model_metadata_pb2,
    get_model_status_pb2,
    inference_pb2,
    predict_pb2,
    regression_pb2,
)

from tests.serving.running import Server, example, predict_request

# A few for every run; ESTIMAND_FUZZ_CASES=20000 for all that was promised.
CASES = int(os.environ.get("ESTIMAND_FUZZ_CASES", "400"))
_MOST_GROWTH = 48 * 2**20  # bytes of memory between the first third and the end
_MODELS = ["half_plus_two", "half_plus_three", "two_inputs", "types", "bytes", "classifier"]
_SIGNATURES = ["", "serving_default", "regress_x_to_y", "classify_x_to_y", "predict", "é"]


def watched(server: Server, cases: int = CASES) -> Iterator[int]:
    """Counts the cases. At the end the server must be there, answer, and not have grown."""
    early = 0
    for case in range(cases):
        if case == cases // 3:
            early = _resident_bytes(server.process.pid)
        yield case
    assert server.process.poll() is None, server.log.read_text()[-2000:]
    assert _resident_bytes(server.process.pid) - early < _MOST_GROWTH
    right = predict_request("two_inputs", a=np.float32([1, 2]), b=np.float32([3, 4]))
    assert server.prediction.Predict(right, timeout=20).outputs["sum"].float_val[:] == [4.0, 6.0]
    body = {"instances": [{"a": 1, "b": 3}, {"a": 2, "b": 4}]}
    answer = server.post("/v1/models/two_inputs:predict", body).json()
    assert [row["sum"] for row in answer["predictions"]] == [4.0, 6.0]


def _resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def damaged(body: bytes, random_: random.Random) -> bytes:
    """Up to four bytes changed, bits turned, pieces taken out or put in."""
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


# ---------------------------------------------------------------- gRPC


def grpc_case(random_: random.Random) -> tuple[str, bytes]:
    """A method's path and a request for it: parsed well but meaningless, or not even that."""
    make: Callable[[random.Random], tuple[str, Any]] = random_.choice(
        [_predict, _predict, _predict, _classify, _regress, _multi, _metadata, _status]
    )
    method, message = make(random_)
    service = "ModelService" if method == "GetModelStatus" else "PredictionService"
    body = message.SerializeToString()
    if body and random_.random() < 0.4:
        body = damaged(body, random_)
    return f"/tensorflow.serving.{service}/{method}", body


def _set_spec(spec: Any, random_: random.Random) -> None:
    spec.name = random_.choice([*_MODELS, *_MODELS, "broken", "no such", "", "../../etc", "%00"])
    spec.signature_name = random_.choice(_SIGNATURES)
    chance = random_.random()
    if chance < 0.1:
        spec.version.value = random_.choice([1, 123, 0, -1, 2**63 - 1, -(2**63)])
    elif chance < 0.2:
        spec.version_label = random_.choice(["", "stable", "x" * 5000])


def _tensor(random_: random.Random) -> Any:
    if random_.random() < 0.3:
        return tf.make_tensor_proto(np.float32([random_.random()]))
    tensor = tensor_pb2.TensorProto(dtype=random_.choice(list(types_pb2.DataType.values())))
    shape = random_.choice(
        [[], [1], [2], [0], [-1], [3, 0], [2, 3], [2**16], [2**40], [2**62, 4], [1] * 300]
    )
    for size in shape:
        tensor.tensor_shape.dim.add(size=size)
    tensor.tensor_shape.unknown_rank = random_.random() < 0.05
    count = random_.choice([0, 1, 2, 6])
    kind = random_.randrange(6)
    if kind == 0:
        tensor.tensor_content = random_.randbytes(random_.choice([1, 4, 8, 24, 48]))
    elif kind == 1:
        tensor.float_val.extend([random_.choice([0.0, 1e38, float("nan")])] * count)
    elif kind == 2:
        tensor.int64_val.extend([random_.choice([0, -1, 2**63 - 1])] * count)
    elif kind == 3:
        tensor.string_val.extend([random_.randbytes(random_.choice([0, 3, 200]))] * count)
    elif kind == 4:
        tensor.int_val.extend([random_.choice([0, 2**31 - 1, -(2**31)])] * count)
    else:
        tensor.half_val.extend([random_.choice([0, -1, 70_000])] * count)
        tensor.bool_val.extend([True] * count)
    return tensor


def _predict(random_: random.Random) -> tuple[str, Any]:
    request = predict_pb2.PredictRequest()
    _set_spec(request.model_spec, random_)
    names = ["x", "a", "b", "image", "f32", "f64", "i32", "i64", "u8", "bool", "text", "inputs"]
    chosen = random_.choice([["x"], ["a", "b"], names, random_.sample(names, 2)])
    for name in chosen:
        request.inputs[name].CopyFrom(_tensor(random_))
    if random_.random() < 0.2:
        request.output_filter.extend(random_.choices(["y", "sum", "product", "", "z"], k=2))
    return "Predict", request


def _set_input(given: Any, random_: random.Random) -> None:
    examples = given.example_list.examples
    if random_.random() < 0.3:
        examples = given.example_list_with_context.examples
        given.example_list_with_context.context.CopyFrom(example(x=1.0))
    for _ in range(random_.choice([0, 1, 3])):
        one = examples.add()
        feature = one.features.feature[random_.choice(["x", "y"])]
        kind = random_.randrange(4)
        if kind == 0:
            feature.float_list.value.extend([1.0] * random_.choice([1, 1, 0, 7]))
        elif kind == 1:
            feature.int64_list.value.append(2**63 - 1)
        elif kind == 2:
            feature.bytes_list.value.append(random_.randbytes(9))


def _classify(random_: random.Random) -> tuple[str, Any]:
    request = classification_pb2.ClassificationRequest()
    _set_spec(request.model_spec, random_)
    _set_input(request.input, random_)
    return "Classify", request


def _regress(random_: random.Random) -> tuple[str, Any]:
    request = regression_pb2.RegressionRequest()
    _set_spec(request.model_spec, random_)
    _set_input(request.input, random_)
    return "Regress", request


def _multi(random_: random.Random) -> tuple[str, Any]:
    request = inference_pb2.MultiInferenceRequest()
    for _ in range(random_.choice([0, 1, 2, 3])):
        task = request.tasks.add()
        _set_spec(task.model_spec, random_)
        task.model_spec.name = random_.choice(["half_plus_two", "half_plus_two", "classifier"])
        kinds = ["classify", "regress", "predict", "\0"]
        task.method_name = f"tensorflow/serving/{random_.choice(kinds)}"
    _set_input(request.input, random_)
    return "MultiInference", request


def _metadata(random_: random.Random) -> tuple[str, Any]:
    request = get_model_metadata_pb2.GetModelMetadataRequest()
    _set_spec(request.model_spec, random_)
    request.metadata_field.extend(random_.choice([[], ["signature_def"], ["x", "signature_def"]]))
    return "GetModelMetadata", request


def _status(random_: random.Random) -> tuple[str, Any]:
    request = get_model_status_pb2.GetModelStatusRequest()
    _set_spec(request.model_spec, random_)
    return "GetModelStatus", request


# ---------------------------------------------------------------- REST


def rest_case(random_: random.Random) -> tuple[str, bytes, dict[str, str]]:
    """A path, a body and headers of a POST."""
    model = random_.choice([*_MODELS, *_MODELS, "none", "%2e%2e", "a b".replace(" ", "%20")])
    where = random_.choice(["", "", "", "/versions/1", "/versions/999999999999999999999"])
    action = random_.choice(["predict", "predict", "predict", "classify", "regress", "explain"])
    document: dict[str, Any] = {}
    if random_.random() < 0.3:
        document["signature_name"] = random_.choice([*_SIGNATURES, 3, None])
    for key in random_.choice([["instances"], ["inputs"], ["examples"], ["instances", "inputs"]]):
        document[key] = _rows(random_)
    body = json.dumps(document).encode()
    if random_.random() < 0.4:
        body = damaged(body, random_)
    headers = {"Content-Type": "application/json"}
    if random_.random() < 0.15:
        headers["Content-Encoding"] = "gzip"
        body = gzip.compress(body, 1)
        if random_.random() < 0.6:
            body = damaged(body, random_)
    return f"/v1/models/{model}{where}:{action}", body, headers


def _rows(random_: random.Random) -> Any:
    names = random_.choice([["x"], ["a", "b"], ["a"], ["image"], ["f32", "text"], ["", "b64"]])
    kind = random_.randrange(4)
    if kind == 0:
        return [{name: _value(random_) for name in names} for _ in range(random_.randint(0, 3))]
    if kind == 1:
        return {name: _value(random_) for name in names}
    if kind == 2:
        return [_value(random_) for _ in range(random_.randint(0, 3))]
    return _value(random_)


def _value(random_: random.Random, depth: int = 0) -> Any:
    plain = [0, 1, -1.5, 2**70, 1e308, float("nan"), float("-inf"), True, None, "", "text", "\0é"]
    base64 = {"b64": random_.choice(["aGk=", "not base64!", "", 3])}
    choices = [lambda: random_.choice(plain)] * 4 + [lambda: base64]
    if depth < 4:
        choices += [lambda: [_value(random_, depth + 1) for _ in range(random_.randint(0, 3))]] * 2
        choices += [lambda: {"x": _value(random_, depth + 1)}]
    elif random_.random() < 0.05:
        return json.loads("[" * 400 + "]" * 400)
    return random_.choice(choices)()


def http_case(random_: random.Random) -> bytes:
    """The bytes of a request, damaged: also its first line and its headers."""
    body = b'{"instances": [{"a": 1.5, "b": 2}]}'
    first = random_.choice(
        [
            b"POST /v1/models/two_inputs:predict HTTP/1.1",
            b"GET /v1/models/two_inputs/metadata HTTP/1.1",
            b"GET /v1/models/half_plus_two HTTP/1.0",
            b"GET /monitoring/prometheus/metrics HTTP/1.1",
            b"OPTIONS /v1/models/two_inputs:predict HTTP/1.1",
            b"PUT / HTTP/1.1",
        ]
    )
    lines = [first, b"Host: localhost", b"Content-Type: application/json"]
    if random_.random() < 0.3:
        lines.append(b"Transfer-Encoding: chunked")
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
    else:
        lines.append(b"Content-Length: %d" % len(body))
    if random_.random() < 0.2:
        lines.append(b"Expect: 100-continue")
    return damaged(b"\r\n".join(lines) + b"\r\n\r\n" + body, random_)
