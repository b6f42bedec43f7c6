"""Configuration files, labels, policies, and versions that change under load."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import grpc
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow_serving.apis import model_management_pb2, prediction_log_pb2

from tests.serving.making import write_half_plus
from tests.serving.running import Server, config_text, predict_request


def entry(name: str, path: Path, more: str = "") -> str:
    return config_text({name: str(path)}, more)


def both(first: str, second: str) -> str:
    """One list of the entries of two."""
    start = "model_config_list {\n"
    return (
        start
        + "".join(text.removeprefix(start).removesuffix("}\n") for text in (first, second))
        + "}"
    )


def place(source: Path, target: Path) -> None:
    """A version appears at once, as exports do."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copytree(source, target.with_name(f"temp-{target.name}"))
    os.rename(target.with_name(f"temp-{target.name}"), target)


def reload(server: Server, text: str) -> None:
    request = model_management_pb2.ReloadConfigRequest()
    text_format.Parse(text, request.config)
    answer = server.model.HandleReloadConfigRequest(request, timeout=60)
    assert answer.status.error_code == 0


def half(server: Server, label: str = "", version: int = 0) -> tuple[float, int]:
    request = predict_request("m", x=np.float32([2.0]))
    if label:
        request.model_spec.version_label = label
    if version:
        request.model_spec.version.value = version
    response = server.prediction.Predict(request, timeout=20)
    return response.outputs["y"].float_val[0], response.model_spec.version.value


def test_configuration_labels_and_versions_change_without_a_failed_request(
    start, models: Path, tmp_path: Path
) -> None:
    two, three = models / "half_plus_two" / "00000123", models / "half_plus_three" / "1"
    base = tmp_path / "m"
    place(two, base / "1")
    config = tmp_path / "models.config"
    config.write_text(entry("m", base))
    server = start(
        f"--model_config_file={config}",
        "--model_config_file_poll_wait_seconds=1",
        "--max_num_load_retries=0",
        f"--reload_config_base_path={models}",
    )
    server.wait_until_ready()
    assert half(server) == (3.0, 1)

    # A new version under load: every request is answered, by the old one or by the new.
    seen: set[tuple[float, int]] = set()
    failures: list[Exception] = []
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            try:
                seen.add(half(server))
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    place(three, base / "2")
    server.wait_for_version("m", 2)
    server.wait_for_version("m", 1, "END")
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert seen == {(3.0, 1), (4.0, 2)}

    # A damaged version does not disturb the one that serves.
    place(models / "broken" / "1", base / "3")
    server.wait_for_version("m", 3, "END")
    assert half(server) == (4.0, 2)
    shutil.rmtree(base / "3")

    # The file changes: two versions, with labels.
    policy = "model_version_policy { specific { versions: 1, versions: 2 } } "
    labels = 'version_labels { key: "stable", value: 1 } version_labels { key: "canary", value: 2 }'
    config.write_text(both(entry("m", base, policy + labels), entry("n", base)))
    server.wait_until(lambda: server.get("/v1/models/m/labels/canary").ok)
    assert half(server, label="stable") == (3.0, 1)
    assert half(server, label="canary") == (4.0, 2)
    assert half(server, version=1) == (3.0, 1)
    answer = server.post("/v1/models/m/labels/stable:predict", {"instances": [2.0]})
    assert answer.json() == {"predictions": [3.0]}
    answer = server.post("/v1/models/n:predict", {"instances": [2.0]})
    assert answer.json() == {"predictions": [4.0]}

    # By call: models that are not listed go; what cannot be done changes nothing.
    refuse_reloads(server, base, policy)
    reload(server, entry("m", base, "model_version_policy { all {} }"))
    server.wait_for_version("n", 2, "END")
    with pytest.raises(grpc.RpcError, match=r"Servable not found for request: Latest\(n\)"):
        server.prediction.Predict(predict_request("n", x=np.float32([2.0])), timeout=20)
    with pytest.raises(grpc.RpcError, match="Unrecognized servable version label: stable"):
        half(server, label="stable")

    # By call: a new model that cannot be loaded is told of, and the others stay.
    broken = both(entry("m", base), entry("broken", models / "broken"))
    with pytest.raises(grpc.RpcError) as caught:
        reload(server, broken)
    assert caught.value.code() is grpc.StatusCode.UNKNOWN
    assert caught.value.details().startswith("1 model(s) did not become available: {")
    assert half(server) == (4.0, 2)


def refuse_reloads(server: Server, base: Path, policy: str) -> None:
    label = 'version_labels { key: "stable", value: 9 }'
    for text, code, told in [
        (entry("m", base, policy + label), "FAILED_PRECONDITION", "not currently available"),
        (both(entry("m", base), entry("m", base)), "INVALID_ARGUMENT", "multiple times in config"),
        (entry("m", Path("relative")), "INVALID_ARGUMENT", "to have an absolute path or URI"),
    ]:
        with pytest.raises(grpc.RpcError) as caught:
            reload(server, text)
        assert caught.value.code().name == code
        assert told in caught.value.details()
        assert half(server, label="stable") == (3.0, 1)


def write_warmup(version: Path, *inputs: dict) -> None:
    (version / "assets.extra").mkdir()
    path = str(version / "assets.extra" / "tf_serving_warmup_requests")
    with tf.io.TFRecordWriter(path) as writer:
        for arrays in inputs:
            log = prediction_log_pb2.PredictionLog()
            log.predict_log.request.CopyFrom(predict_request("any", **arrays))
            writer.write(log.SerializeToString())


def test_warmup_requests_and_batching_parameters(start, tmp_path: Path) -> None:
    base = tmp_path / "m"
    write_half_plus(base / "1", 2.0)
    write_warmup(base / "1", {"x": np.float32([[1.0]])})
    write_half_plus(base / "2", 3.0)
    write_warmup(base / "2", {"x": np.float32([[1.0]])}, {"wrong": np.float32([1.0])})
    parameters = tmp_path / "batching.pbtxt"
    parameters.write_text(
        "max_batch_size { value: 4 } batch_timeout_micros { value: 1000 } "
        "max_enqueued_batches { value: 8 } num_batch_threads { value: 2 }"
    )
    server = start(
        "--model_name=m",
        f"--model_base_path={base}",
        "--enable_batching",
        f"--batching_parameters_file={parameters}",
        "--max_num_load_retries=0",
    )
    server.wait_for_version("m", 2, "END")
    status = server.get("/v1/models/m/versions/2").json()["model_version_status"][0]["status"]
    assert status["error_code"] == "INVALID_ARGUMENT"
    shutil.rmtree(base / "2")
    server.wait_for_version("m", 1)
    assert half(server) == (3.0, 1)
    answer = server.post("/v1/models/m:predict", {"instances": [1.0] * 5})
    assert answer.status_code == 400
    assert answer.json()["error"] == "Task size 5 is larger than maximum input batch size 4"
