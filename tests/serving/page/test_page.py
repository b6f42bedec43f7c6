"""The page's three addresses, asked without a browser."""

from __future__ import annotations

import base64
import hashlib
import re

from tests.serving.running import Server

WITHOUT_AN_ANSWER = {"broken"}


def test_the_page_is_one_file_that_runs_only_its_own_script(server: Server) -> None:
    answer = server.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = dict(
        part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == policy["frame-ancestors"] == "'none'"
    assert policy["connect-src"] == "'self'"
    assert "unsafe" not in answer.headers["content-security-policy"]
    (script,) = re.findall(r"<script>(.*?)</script>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy["script-src"] == f"'sha256-{digest}'"
    elsewhere = re.findall(
        r"""(?:src|href)=["'](?!data:)|@import|https?://(?!www\.w3)""", answer.text
    )
    assert elsewhere == []


def test_texts_of_others_are_never_read_as_html(server: Server) -> None:
    script = server.get("/").text
    assert not re.findall(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", script)


def test_status_tells_models_versions_errors_and_counts(server: Server) -> None:
    server.post("/v1/models/two_inputs:predict", {"instances": [{"a": 1.0, "b": 1.0}]})
    server.post("/v1/models/two_inputs:predict", {"instances": [{"a": 1.0}]})
    answer = server.get("/monitoring/status.json")
    assert answer.headers["cache-control"] == "no-store"
    status = answer.json()
    models = {model["name"]: model for model in status["models"]}
    assert not status["ready"]  # one model cannot be loaded
    assert models["half_plus_two"]["versions"] == [
        {"number": "123", "state": "AVAILABLE", "error": "", "labels": []}
    ]
    (failed,) = models["broken"]["versions"]
    assert failed["state"] == "END"
    assert "saved_model.pb" in failed["error"]
    counted = models["two_inputs"]
    assert counted["requests"]["OK"] >= 1
    assert counted["requests"]["INVALID_ARGUMENT"] >= 1
    (rest,) = (one for one in counted["latencies"] if one["entrypoint"] == "REST")
    assert rest["api"] == "Predict"
    assert sum(rest["counts"]) >= 2
    assert len(rest["counts"]) == len(status["bucket_edges"]) + 1


def test_requests_to_models_that_are_not_there_are_counted(server: Server) -> None:
    before = server.get("/monitoring/status.json").json()["unknown"].get("NOT_FOUND", 0)
    server.post("/v1/models/nothing:predict", {"instances": [1.0]})
    assert server.get("/monitoring/status.json").json()["unknown"]["NOT_FOUND"] == before + 1


def test_each_example_request_is_accepted_as_it_is(server: Server) -> None:
    models = {model["name"] for model in server.get("/monitoring/status.json").json()["models"]}
    sent = 0
    for model in sorted(models - WITHOUT_AN_ANSWER):
        found = server.get(f"/monitoring/signatures.json?model={model}").json()
        for name, signature in found["signatures"].items():
            path = f"/v1/models/{model}/versions/{found['version']}:{signature['action']}"
            answer = server.post(path, signature["request"].encode())
            assert answer.ok, f"{model}, {name}: {signature['request']} -> {answer.text}"
            sent += 1
    assert sent >= 10


def test_signatures_have_types_shapes_and_the_features_of_examples(server: Server) -> None:
    found = server.get("/monitoring/signatures.json?model=classifier&version=1").json()
    assert found["features"] == {"x": {"dtype": "float32", "shape": [None, 1], "required": True}}
    assert found["signatures"]["classification"]["request"] == (
        '{"signature_name": "classification", "examples": [{"x": 1.0}]}'
    )
    found = server.get("/monitoring/signatures.json?model=two_inputs").json()
    assert found["signatures"]["serving_default"]["inputs"]["a"]["shape"] == [None]


def test_signatures_of_what_is_not_there(server: Server) -> None:
    for query, code in {
        "model=nothing": 404,
        "model=broken": 404,
        "model=half_plus_two&version=7": 404,
        "model=half_plus_two&version=-1": 400,
        f"model=half_plus_two&version={'9' * 30}": 400,
        "model=half_plus_two&version=%C2%B2": 400,
        "model=%ff%00": 404,
        "": 400,
    }.items():
        answer = server.get(f"/monitoring/signatures.json?{query}")
        assert (answer.status_code, "error" in answer.json()) == (code, True), query


def test_the_page_is_for_reading_only(server: Server) -> None:
    for path in ("/", "/monitoring/status.json", "/monitoring/signatures.json"):
        assert server.post(path, b"").status_code == 404
    assert server.http.head(server.url("/"), timeout=20).status_code == 200
