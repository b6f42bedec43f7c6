"""Labels that are moved from version to version while many ask by them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
import requests
from google.protobuf import text_format
from tensorflow_serving.apis import model_management_pb2, prediction_service_pb2_grpc

from tests.serving import making
from tests.serving.attacks.conftest import ATTACKED, FRONTS
from tests.serving.attacks.watching import bystanders
from tests.serving.running import Server, predict_request

MOVES = 12
TRIES = 6  # connections that all have to see a move, whichever worker takes them
CONFIG = """
model_config_list {{
  config {{ name: "two_inputs" base_path: "{two_inputs}" model_platform: "tensorflow" }}
  config {{
    name: "m" base_path: "{m}" model_platform: "tensorflow"
    model_version_policy {{ specific {{ {versions} }} }}
    {labels}
  }}
}}
"""
# In turn: the versions that are served, and those that `stable` and `canary` mean. A version goes
# while its label moves to one that comes.
STEPS = [
    ((1, 2), (1, 2)),
    ((1, 2), (2, 1)),
    ((1, 2, 3), (2, 1)),
    ((1, 2, 3), (3, 2)),
    ((2, 3), (3, 2)),
    ((2, 3), (2, 3)),
    ((1, 2, 3), (2, 3)),
    ((1, 2, 3), (1, 2)),
]


class Labelled:
    def __init__(self, folder: Path, models: Path, *flags: str) -> None:
        self._paths = {"two_inputs": models / "two_inputs", "m": folder / "m"}
        for version in (1, 2, 3):
            making.write_half_plus(folder / "m" / str(version), float(version))
        config = folder / "models.config"
        config.write_text(self.text(*STEPS[0]))
        self.server = Server(folder / "log", f"--model_config_file={config}", *flags)

    def text(self, versions: tuple[int, ...], labels: tuple[int, int]) -> str:
        return CONFIG.format(
            **self._paths,
            versions=" ".join(f"versions: {number}" for number in versions),
            labels=" ".join(
                f'version_labels {{ key: "{name}" value: {number} }}'
                for name, number in zip(("stable", "canary"), labels, strict=True)
            ),
        )

    def move(self, versions: tuple[int, ...], labels: tuple[int, int]) -> None:
        """A version that comes can have a label when it is there."""
        request = model_management_pb2.ReloadConfigRequest()
        text_format.Parse(self.text(versions, labels), request.config)

        def is_done() -> bool:
            try:
                answer = self.server.model.HandleReloadConfigRequest(request, timeout=60)
            except grpc.RpcError as error:
                assert error.code() is grpc.StatusCode.FAILED_PRECONDITION, error.details()
                return False
            return answer.status.error_code == 0

        self.server.wait_until(is_done)


@pytest.fixture(scope="module", params=ATTACKED)
def labelled(
    request: pytest.FixtureRequest, attacked_models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Labelled]:
    made = Labelled(tmp_path_factory.mktemp("m"), attacked_models, *FRONTS[request.param])
    try:
        made.server.wait_until_ready()
        made.move(*STEPS[0])  # every worker has both versions
        yield made
    finally:
        ended = made.server.stop()
    assert ended == 0


def by_grpc(server: Server, label: str, x: float) -> float:
    """What was added to half of x, which is the version; it has to be the one that is told."""
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(f"127.0.0.1:{server.port}", options) as channel:
        request = predict_request("m", x=np.float32([x]))
        request.model_spec.version_label = label
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        answer = stub.Predict(request, timeout=20)
    version = answer.outputs["y"].float_val[0] - x / 2
    assert version == answer.model_spec.version.value
    return version


def by_rest(server: Server, label: str, x: float) -> float:
    url = server.url(f"/v1/models/m/labels/{label}:predict")
    answer = requests.post(url, json={"instances": [x]}, timeout=20)
    assert answer.ok, answer.text
    return answer.json()["predictions"][0] - x / 2


WAYS: dict[str, Callable[[Server, str, float], float]] = {"grpc": by_grpc, "rest": by_rest}


class Asking(threading.Thread):
    """By a label, again and again; notes which versions have answered."""

    def __init__(self, server: Server, way: str, label: str) -> None:
        super().__init__(name=f"{way} {label}")
        self._ask = lambda x: WAYS[way](server, label, x)
        self.stop = threading.Event()
        self.versions: set[float] = set()
        self.problems: list[str] = []

    def run(self) -> None:
        x = 0.0
        while not self.stop.is_set():
            x += 2.0
            try:
                self.versions.add(self._ask(x))
            except Exception as error:
                self.problems.append(repr(error)[:300])


@contextlib.contextmanager
def running(threads: list[Asking]) -> Iterator[None]:
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for thread in threads:
            thread.stop.set()
            thread.join()


def test_labels_move_under_load(labelled: Labelled) -> None:
    server = labelled.server
    asking = [Asking(server, way, label) for way in WAYS for label in ("stable", "canary")]
    with bystanders(server, loads_models=True) as others, running(asking):
        for turn in range(MOVES):
            versions, labels = STEPS[(turn + 1) % len(STEPS)]
            labelled.move(versions, labels)
            # Who asks from now on gets what was said.
            for name, number in zip(("stable", "canary"), labels, strict=True):
                for ask in WAYS.values():
                    assert {ask(server, name, 8.0) for _ in range(TRIES)} == {float(number)}
        others.served(3)
    assert [thread.problems for thread in asking] == [[]] * len(asking)
    assert all(thread.versions <= {1.0, 2.0, 3.0} for thread in asking)
    assert any(len(thread.versions) > 1 for thread in asking)
