"""MLflow with a server of its own, Weights & Biases offline."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import requests
import tensorflow as tf

import estimand as est
from tests import line
from tests.tracking.test_hook import estimator, run

pytestmark = pytest.mark.extras

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of an MLflow server with its database."""
    pytest.importorskip("mlflow")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    address = f"http://127.0.0.1:{port}"
    said = tmp_path / "server.txt"
    with said.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "mlflow", "server", "--host=127.0.0.1", f"--port={port}",
             "--workers=1", f"--backend-store-uri=sqlite:///{tmp_path / 'mlflow.db'}",
             f"--artifacts-destination={tmp_path / 'artifacts'}"],
            stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True,
            env={**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true", "HOME": str(tmp_path)},
        )  # fmt: skip
    try:
        _wait_for(address, process, said)
        yield address
    finally:
        with contextlib.suppress(ProcessLookupError):  # it has ended by itself
            os.killpg(process.pid, 15)
        process.wait()


def _wait_for(address: str, process: subprocess.Popen[bytes], said: Path) -> None:
    for _ in range(1200):
        assert process.poll() is None, f"the server ended: {said.read_text()[-6000:]}"
        try:
            if requests.get(f"{address}/health", timeout=5).ok:
                return
        except requests.RequestException:  # not there, or not yet able to answer
            time.sleep(0.2)
    raise AssertionError(f"the server does not answer: {said.read_text()[-6000:]}")


def apart(function: str, *arguments: Any) -> None:
    """In a process of its own: both packages leave variables, threads and processes behind."""
    given = ", ".join(repr(str(one)) for one in arguments)
    code = f"from tests.tracking import test_trackers as t; t.{function}({given})"
    environment = {
        **os.environ, "PYTHONPATH": str(REPOSITORY),
        "WANDB_SILENT": "true", "MLFLOW_DISABLE_TELEMETRY": "true",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-6000:]


def test_mlflow_has_the_run_and_a_model_that_pyfunc_loads(server: str, tmp_path: Path) -> None:
    apart("track_with_mlflow", server, tmp_path / "line")


def track_with_mlflow(server: str, directory: str) -> None:
    import mlflow

    model_dir = Path(directory)

    tracker = est.tracking.MLflow(server, "lines", registered_name="line")
    run(tracker, model_dir, 4)
    run(est.tracking.MLflow(server, "lines", registered_name="line"), model_dir, 8)

    client = mlflow.MlflowClient(server, server)
    [found] = client.search_runs([client.get_experiment_by_name("lines").experiment_id])
    assert found.info.status == "FINISHED" and found.info.run_name == "line"
    assert found.data.params["adam.rate"] == "0.1"
    steps = [metric.step for metric in client.get_metric_history(found.info.run_id, "loss")]
    assert steps == [2, 4, 6, 8]
    steps = [metric.step for metric in client.get_metric_history(found.info.run_id, "eval/mae")]
    assert steps == [4, 8]

    assert {int(one.version) for one in client.search_model_versions("name='line'")} == {1, 2}
    mlflow.set_tracking_uri(server)
    mlflow.set_registry_uri(server)
    model = mlflow.pyfunc.load_model("models:/line/2")
    [taken] = model.metadata.signature.inputs.inputs
    assert (taken.name, taken.type, taken.shape) == ("x", np.dtype("float32"), (-1,))
    w = line.weight_after(8)
    for rows in ({"x": np.float32([1, 2])}, pd.DataFrame({"x": np.float32([1, 2])})):
        assert model.predict(rows)["y"] == pytest.approx([w, 2 * w], rel=1e-5)


class Failing(est.SessionRunHook):
    def after_run(self, context: Any, values: Any) -> None:
        raise OSError("no disk")


def fail(tracker: Any, model_dir: Path) -> None:
    trained = estimator(model_dir)
    hook = est.tracking.TrackingHook(tracker, trained)
    with pytest.raises(OSError, match="no disk"):
        trained.train(line.endless, hooks=[hook, Failing()], max_steps=4)


def test_mlflow_has_a_training_that_raised_as_failed(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    apart("fail_with_mlflow", tmp_path)


def fail_with_mlflow(directory: str) -> None:
    import mlflow

    address = f"sqlite:///{directory}/mlflow.db"
    fail(est.tracking.MLflow(address, "lines"), Path(directory) / "line")
    client = mlflow.MlflowClient(address)
    [found] = client.search_runs([client.get_experiment_by_name("lines").experiment_id])
    assert found.info.status == "FAILED" and found.info.end_time is not None


def test_mlflow_asks_rows_of_a_model_that_takes_examples(tmp_path: Path) -> None:
    pytest.importorskip("mlflow")
    apart("ask_rows_of_examples", tmp_path)


def ask_rows_of_examples(directory: str) -> None:
    import mlflow

    from estimand.tracking.mlflow import save_model

    spec = {"x": tf.io.FixedLenFeature([], tf.float32)}
    receiver_fn = est.export.build_parsing_serving_input_receiver_fn(spec)
    trained = estimator(Path(directory) / "line").train(line.endless, max_steps=4)
    export = trained.export_saved_model(Path(directory) / "export", receiver_fn).decode()
    save_model(export, f"{directory}/saved")
    model = mlflow.pyfunc.load_model(f"{directory}/saved")
    assert model.metadata.signature.inputs is None
    w = line.weight_after(4)
    for rows in (pd.DataFrame({"x": [1.0, 2.0]}), [{"x": 1.0}, {"x": 2.0}]):
        assert model.predict(rows)["y"] == pytest.approx([w, 2 * w], rel=1e-5)


def track_with_wandb(directory: str) -> None:
    tracker = est.tracking.WeightsAndBiases("lines", mode="offline", directory=directory)
    run(tracker, Path(directory) / "line", 4)
    run(tracker, Path(directory) / "line", 8)


def test_weights_and_biases_offline_files_have_the_run(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    apart("track_with_wandb", tmp_path)
    files = sorted(tmp_path.rglob("*.wandb"))
    assert len(files) == 2  # one run, in two parts
    assert files[0].name == files[1].name
    told = [record for file in files for record in _records(file)]
    rows = [_row(record.history) for record in told if record.HasField("history")]
    assert [row["_step"] for row in rows if "loss" in row] == [2, 4, 6, 8]
    assert [row["_step"] for row in rows if "eval/mae" in row] == [4, 8]
    config = {
        item.key: item.value_json
        for record in told
        if record.HasField("config")
        for item in record.config.update
    }
    assert config["adam.rate"] == "0.1"
    assert [record.exit.exit_code for record in told if record.HasField("exit")] == [0, 0]


def fail_with_wandb(directory: str) -> None:
    tracker = est.tracking.WeightsAndBiases("lines", mode="offline", directory=directory)
    fail(tracker, Path(directory) / "line")


def test_weights_and_biases_have_a_training_that_raised_as_failed(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    apart("fail_with_wandb", tmp_path)
    [file] = tmp_path.rglob("*.wandb")
    exits = [record.exit.exit_code for record in _records(file) if record.HasField("exit")]
    assert exits == [1]


def _records(path: Path) -> Iterator[Any]:
    """The file is a log of LevelDB: blocks of 32 KB, and in them parts of records."""
    from wandb.proto import wandb_internal_pb2

    data, at, whole = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        whole += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # a whole one, or its last part
            yield wandb_internal_pb2.Record.FromString(whole)
            whole = b""


def _row(history: Any) -> dict[str, Any]:
    return {
        item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in history.item
    }
