"""The REST API over a real socket."""

from __future__ import annotations

import base64
import gzip
import json
import math
import socket

import pytest
import tensorflow as tf
from tensorflow_serving.apis import get_model_metadata_pb2

from tests.serving.running import Server

HALF = "/v1/models/half_plus_two"


def refused(answer) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/json"
    return answer.status_code, answer.json()["error"]


# ---------------------------------------------------------------- predict


def test_rows_of_values(server: Server) -> None:
    answer = server.post(f"{HALF}:predict", {"instances": [2.0, 3.0, 4]})
    assert answer.json() == {"predictions": [3.0, 3.5, 4.0]}
    assert answer.headers["content-type"] == "application/json"


def test_rows_by_version_and_without_regard_to_case(server: Server) -> None:
    body = {"signature_name": "serving_default", "instances": [[2.0]]}
    answer = server.post("/V1/models/half_plus_two/Versions/123:Predict", body)
    assert answer.json() == {"predictions": [[3.0]]}


def test_named_rows_give_named_rows(server: Server) -> None:
    rows = [{"a": 1, "b": 2.5}, {"b": 4, "a": 3}]
    answer = server.post("/v1/models/two_inputs:predict", {"instances": rows})
    assert answer.json() == {
        "predictions": [{"product": 2.5, "sum": 3.5}, {"product": 12.0, "sum": 7.0}]
    }


def test_columns(server: Server) -> None:
    answer = server.post("/v1/models/two_inputs:predict", {"inputs": {"a": [1, 2], "b": [3, 4]}})
    assert answer.json() == {"outputs": {"product": [3.0, 8.0], "sum": [4.0, 6.0]}}
    answer = server.post(f"{HALF}:predict", {"inputs": 3.0})
    assert answer.json() == {"outputs": 3.5}


def test_every_kind_of_value(server: Server) -> None:
    given = {
        "f32": [0.1, 16777215],
        "f64": [[0.1]],
        "i32": -7,
        "i64": [2**63 - 1],
        "u8": [255],
        "bool": [True, False],
        "text": ["\u00e4", {"b64": base64.b64encode(b"abc").decode()}],
    }
    answer = server.post("/v1/models/types:predict", {"inputs": given})
    assert answer.json()["outputs"] == {
        "f32_out": [0.1, 16777215.0],
        "f64_out": [[0.1]],
        "i32_out": -7,
        "i64_out": [2**63 - 1],
        "u8_out": [255],
        "bool_out": [True, False],
        "text_out": ["\u00e4", "abc"],
    }


def test_not_a_number_goes_in_and_comes_out(server: Server) -> None:
    answer = server.post(f"{HALF}:predict", b'{"instances": [NaN, Infinity, -Infinity, 0.2]} etc')
    first, *others = json.loads(answer.text)["predictions"]
    assert math.isnan(first)
    assert others == [math.inf, -math.inf, 2.1]


def test_bytes_are_answered_in_base64(server: Server) -> None:
    image = {"b64": base64.b64encode(b"\x89PNG\xff").decode()}
    answer = server.post("/v1/models/bytes:predict", {"instances": [image]})
    assert answer.json() == {"predictions": [image]}


def test_a_zipped_body(server: Server) -> None:
    body = gzip.compress(b'{"instances": [2.0]}')
    answer = server.post(f"{HALF}:predict", body, headers={"Content-Encoding": "gzip"})
    assert answer.json() == {"predictions": [3.0]}


REFUSED = {
    "unknown signature": (
        '{"signature_name": "s", "instances": [1]}',
        'Serving signature name: "s" not found in signature def',
    ),
    "signature of another type": (
        '{"signature_name": 5, "instances": [1]}',
        "'signature_name' key must be a string value.",
    ),
    "neither": ("{}", "Missing 'inputs' or 'instances' key"),
    "both": ('{"instances": [1], "inputs": [1]}', "expecting only one of 'inputs' or 'instances'"),
    "no list": ('{"instances": 1}', "Excepting 'instances' to be an list/array"),
    "empty list": ('{"instances": []}', "No values in 'instances' array"),
    "no object": ("[1]", "JSON Value: [1] Is not object"),
    "empty": ("", "JSON Parse error: The document is empty"),
    "no JSON": ("instances = [1, 2]", "JSON Parse error: Invalid value. at offset: 0"),
    "cut": ('{"instances": [1', "Missing a comma or ] after an array element. at offset: 16"),
    "no comma": ('{"instances": [1] "a": 2}', "Missing a comma or } after an object member."),
    "too large for a double": ('{"instances": [1e400]}', "Number too big to be stored in double"),
    "a string": (
        '{"instances": [1, "a"]}',
        "Failed to process element: 1 of 'instances' list. Error: INVALID_ARGUMENT: JSON Value: "
        '"a" Type: String is not of expected type: float',
    ),
    "true for a number": ('{"instances": [true]}', "Type: True is not of expected type: float"),
    "null": ('{"inputs": [null]}', "JSON Value: null Type: Null is not of expected type: float"),
    "rows of different shapes": (
        '{"instances": [[1], [1, 2]]}',
        "Expecting tensor size: 1 but got: 2",
    ),
    "ragged columns": (
        '{"inputs": [[1], [1, 2]]}',
        "Encountered list at unexpected size: 2 at level: 1 expected size: 1",
    ),
    "lossy": ('{"inputs": [16777217]}', "Cannot convert JSON value: 16777217 to float without"),
    "too deep": ("[" * 100_000, "JSON Parse error: "),
    "too deep for a tensor": (
        '{"inputs": ' + "[" * 99 + "1" + "]" * 99 + "}",
        "too deep for a tensor",
    ),
    "too deep to be shown": ('{"x": ' + "[" * 999 + "1" + "]" * 999 + "}", "Missing 'inputs' or"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_predict_refuses(server: Server, case: str) -> None:
    body, text = REFUSED[case]
    code, told = refused(server.post(f"{HALF}:predict", body.encode()))
    assert code == 400
    assert text in told


def test_types_are_strict(server: Server) -> None:
    good = {"f32": 1, "f64": 1, "i32": 1, "i64": 1, "u8": 1, "bool": True, "text": "a"}
    for key, bad, kind in [
        ("i32", 1.0, "int32"),
        ("i32", 2**31, "int32"),
        ("i64", 2**63, "int64"),
        ("bool", 1, "bool"),
        ("text", 1, "string"),
        ("u8", "1", "uint8"),
    ]:
        answer = server.post("/v1/models/types:predict", {"inputs": {**good, key: bad}})
        code, text = refused(answer)
        assert code == 400
        assert text.endswith(f"is not of expected type: {kind}"), text


def test_names_must_be_those_of_the_signature(server: Server) -> None:
    path = "/v1/models/two_inputs:predict"
    answer = server.post(path, {"inputs": {"a": [1]}})
    assert refused(answer) == (400, "Missing named input: b in 'inputs' object.")
    answer = server.post(path, {"instances": [{"a": 1}]})
    assert "keys must be equal to: a,b" in refused(answer)[1]
    answer = server.post(path, {"instances": [1.0]})
    assert refused(answer)[1].startswith("instances is a plain list")


def test_a_body_that_is_too_large_is_refused_zipped_or_not(server: Server) -> None:
    large = b" " * 1_000_001
    assert server.post(f"{HALF}:predict", large).status_code == 413
    zipped = server.post(
        f"{HALF}:predict", gzip.compress(large), headers={"Content-Encoding": "gzip"}
    )
    assert zipped.status_code == 413


# ---------------------------------------------------------------- classify, regress


def test_classify(server: Server) -> None:
    body = {"signature_name": "classify_x_to_y", "examples": [{"x": 2.0}, {"x": [4.0]}]}
    answer = server.post(f"{HALF}:classify", body)
    assert answer.json() == {"results": [[["", 3.0]], [["", 4.0]]]}


def test_regress_with_context(server: Server) -> None:
    body = {"signature_name": "regress_x_to_y", "context": {"x": 6.0}, "examples": [{}, {"x": 2.0}]}
    answer = server.post(f"{HALF}:regress", body)
    assert answer.json() == {"results": [5.0, 3.0]}


def test_a_feature_has_one_kind_of_values(server: Server) -> None:
    body = {"signature_name": "regress_x_to_y", "examples": [{"x": [2, 2.5]}]}
    code, text = refused(server.post(f"{HALF}:regress", body))
    assert (code, text) == (400, "Unexpected element type in feature: x expecting type: int64")


# ---------------------------------------------------------------- everything else


def test_status(server: Server) -> None:
    expected = {
        "version": "123",
        "state": "AVAILABLE",
        "status": {"error_code": "OK", "error_message": ""},
    }
    assert server.get(HALF).json() == {"model_version_status": [expected]}
    assert server.get(f"{HALF}/versions/123").json() == {"model_version_status": [expected]}
    answer = refused(server.get("/v1/models/nobody"))
    assert answer == (404, "Could not find any versions of model nobody")


def test_metadata(server: Server) -> None:
    told = server.get(f"{HALF}/metadata").json()
    assert told["model_spec"] == {"name": "half_plus_two", "signature_name": "", "version": "123"}
    signatures = told["metadata"]["signature_def"]
    message = get_model_metadata_pb2.SignatureDefMap()
    from google.protobuf import json_format

    json_format.ParseDict(signatures, message)
    assert (
        message.signature_def["serving_default"].outputs["y"].dtype == tf.float32.as_datatype_enum
    )
    assert signatures["signature_def"]["serving_default"]["defaults"] == {}


@pytest.mark.parametrize(
    ("method", "path", "code", "text"),
    [
        ("GET", "/v1/foo", 400, "Malformed request: GET /v1/foo"),
        ("POST", f"{HALF}:explain", 400, f"Malformed request: POST {HALF}:explain"),
        ("GET", f"{HALF}:predict", 400, f"Malformed request: GET {HALF}:predict"),
        ("GET", "/v1/models", 400, "Missing model name in request."),
        (
            "POST",
            "/v1/models/nobody:predict",
            404,
            "Servable not found for request: Latest(nobody)",
        ),
        ("POST", f"{HALF}/labels/l:predict", 400, "Unrecognized servable version label: l"),
        (
            "GET",
            f"{HALF}/versions/{10**20}",
            400,
            f"Failed to convert version: {10**20} to numeric.",
        ),
    ],
)
def test_paths_that_lead_nowhere(server: Server, method, path, code, text) -> None:
    answer = server.http.request(method, server.url(path), data=b"{}", timeout=20)
    assert refused(answer) == (code, text)


def test_outside_of_the_api_there_is_nothing(server: Server) -> None:
    assert server.get("/other").status_code == 404


def test_a_name_cannot_leave_the_models(server: Server) -> None:
    answer = server.get("/v1/models/..%2Fhalf_plus_two")
    assert refused(answer) == (404, "Could not find any versions of model ../half_plus_two")


def test_browsers_may_ask_from_other_pages(server: Server) -> None:
    origin = {"Origin": "http://localhost:3000"}
    answer = server.http.options(server.url(f"{HALF}:predict"), headers=origin, timeout=20)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "*"


def test_metrics_count_requests_by_model_and_status(server: Server) -> None:
    def count(status: str) -> int:
        text = server.get("/monitoring/prometheus/metrics").text
        start = (
            f':tensorflow:serving:request_count{{model_name="half_plus_three",status="{status}"}}'
        )
        found = [line for line in text.splitlines() if line.startswith(start)]
        return int(found[0].rpartition(" ")[2]) if found else 0

    before = count("OK"), count("INVALID_ARGUMENT")
    server.post("/v1/models/half_plus_three:predict", {"instances": [1.0]})
    server.post("/v1/models/half_plus_three:predict", {"instances": ["a"]})
    assert (count("OK"), count("INVALID_ARGUMENT")) == (before[0] + 1, before[1] + 1)


def test_half_a_request_and_no_request_at_all_disturb_nobody(server: Server) -> None:
    head = f"POST {HALF}:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{{"
    with socket.create_connection(("127.0.0.1", server.rest_port), 20) as half:
        half.sendall(head.encode())
        with socket.create_connection(("127.0.0.1", server.rest_port), 20) as garbage:
            garbage.sendall(b"\x00\x01garbage\r\n\r\n")
            assert b"400" in garbage.recv(1000)
        assert server.post(f"{HALF}:predict", {"instances": [2.0]}).ok
