"""Servers in their own processes, and what clients send them."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest
import requests
import tensorflow as tf
from tensorflow_serving.apis import (
    model_service_pb2_grpc,
    predict_pb2,
    prediction_service_pb2_grpc,
)

from estimand.cluster.addresses import free_ports
from tests import forked


def config_text(entries: dict[str, str], more: str = "") -> str:
    models = "".join(
        f'  config {{ name: "{name}", base_path: "{path}", model_platform: "tensorflow" {more} }}\n'
        for name, path in entries.items()
    )
    return f"model_config_list {{\n{models}}}\n"


def free_port() -> int:
    return free_ports(1)[0]


class Server:
    """`python -m estimand serve` and ways to talk to it."""

    def __init__(self, log: Path, *flags: str) -> None:
        self.port, self.rest_port = free_ports(2)  # two that differ
        self.log = log
        command = ["-m", "estimand", "--verbose", "serve"]
        command += [f"--port={self.port}", "--rest_api_port", str(self.rest_port), *flags]
        with log.open("wb") as file:
            self.process = forked.Program(command, stdout=file, stderr=subprocess.STDOUT)
        self.channel = grpc.insecure_channel(f"127.0.0.1:{self.port}")
        self.prediction = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        self.model = model_service_pb2_grpc.ModelServiceStub(self.channel)
        self.http = requests.Session()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.rest_port}{path}"

    def get(self, path: str, **more) -> requests.Response:
        return self.http.get(self.url(path), timeout=20, **more)

    def post(self, path: str, body: object, **more) -> requests.Response:
        kind = "json" if isinstance(body, dict) else "data"
        return self.http.post(self.url(path), timeout=20, **{kind: body}, **more)

    def wait_until(self, condition: Callable[[], bool], seconds: float = 120.0) -> None:
        ends = time.monotonic() + seconds
        while time.monotonic() < ends:
            if self.process.poll() is not None:
                pytest.fail(f"the server has ended:\n{self.log.read_text()}")
            with contextlib.suppress(requests.ConnectionError):
                if condition():
                    return
            time.sleep(0.05)
        pytest.fail(f"it did not happen within {seconds} s:\n{self.log.read_text()}")

    def wait_until_open(self) -> None:
        self.wait_until(lambda: self.get("/livez").ok)

    def wait_until_ready(self) -> None:
        self.wait_until(lambda: self.get("/readyz").ok)

    def wait_for_version(self, model: str, version: int, state: str = "AVAILABLE") -> None:
        def there() -> bool:
            answer = self.get(f"/v1/models/{model}/versions/{version}")
            return answer.ok and answer.json()["model_version_status"][0]["state"] == state

        self.wait_until(there)

    def stop(self) -> int:
        self.channel.close()
        self.http.close()
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            pytest.fail(f"the server does not end:\n{self.log.read_text()}")


def workers_of(server: Server) -> list[int]:
    parent = server.process.pid
    return [int(pid) for pid in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


def wait_until_gone(pids: list[int], seconds: float = 120.0) -> None:
    def is_alive(pid: int) -> bool:
        with contextlib.suppress(OSError):
            return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
        return False

    ends = time.monotonic() + seconds
    while any(map(is_alive, pids)):
        assert time.monotonic() < ends, f"of {pids}, some are still there"
        time.sleep(0.05)


def predict_request(model: str, signature: str = "", **arrays) -> predict_pb2.PredictRequest:
    request = predict_pb2.PredictRequest()
    request.model_spec.name = model
    request.model_spec.signature_name = signature
    for name, array in arrays.items():
        request.inputs[name].CopyFrom(tf.make_tensor_proto(array))
    return request


def example(**features: float) -> tf.train.Example:
    made = tf.train.Example()
    for name, value in features.items():
        made.features.feature[name].float_list.value.append(value)
    return made
