"""Models that answer some requests with far too much, or with shapes that they did not promise.

They pass the trial. Who asks such a question gets what the model says, or an error; who asks the
same model, or another one, gets the right answer meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import numpy as np
import pytest
import requests
import tensorflow as tf
from tensorflow_serving.apis import prediction_service_pb2_grpc

from tests.serving import making
from tests.serving.attacks import hostile
from tests.serving.attacks.conftest import ATTACKED, FRONTS
from tests.serving.attacks.watching import bystanders
from tests.serving.running import Server, config_text, predict_request

MANY = 2**21
TURNS = 2
MB = 2**20
DEMAND = 2e6  # what makes a model do it

SHAPES: dict[str, tuple[Callable[[tf.Tensor], tf.Tensor], list[int]]] = {
    "no_rows": (lambda x: x[:0], [0]),
    "fewer_rows": (lambda x: x[:1], [1]),
    "more_rows": (lambda x: tf.tile(x, [3]), [6]),
    "scalar": (tf.reduce_sum, []),
    "deeper": (lambda x: tf.reshape(x, [1, 1, 1, -1]), [1, 1, 1, 2]),
    "turned": (lambda x: tf.reshape(x, [1, -1]), [1, 2]),
}


def _strings(x):
    many = tf.cond(
        tf.reduce_any(x > 1e6), lambda: tf.fill([MANY // 4], "x" * 20), lambda: tf.as_string(x)
    )
    return {"y": many}


@pytest.fixture(scope="module", params=ATTACKED)
def server(
    request: pytest.FixtureRequest, attacked_models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp(request.param)
    models = {"two_inputs": str(attacked_models / "two_inputs")}
    harms = {name: harm for name, (harm, _) in SHAPES.items()}
    harms["numbers"] = lambda x: tf.fill([MANY], x[0])
    for name, harm in harms.items():
        (folder / name).mkdir()
        hostile.write_on_demand(folder / name / "1", harm)
        models[name] = str(folder / name)
    spec = {"x": tf.TensorSpec([None], tf.float32)}
    making.write_function(folder / "strings" / "1", _strings, spec)
    models["strings"] = str(folder / "strings")
    config = folder / "models.config"
    config.write_text(config_text(models))
    running = Server(folder / "log", f"--model_config_file={config}", *FRONTS[request.param])
    try:
        running.wait_until_ready()
        yield running
    finally:
        ended = running.stop()
    assert ended == 0


class Neighbours(threading.Thread):
    """Asks the same model, on both fronts, about numbers of its own."""

    def __init__(self, server: Server, model: str) -> None:
        super().__init__(name="neighbour")
        self._server, self._model = server, model
        self.stop = threading.Event()
        self.answers = 0
        self.wrong: list[str] = []

    def run(self) -> None:
        while not self.stop.is_set():
            x = np.float32([self.answers, self.answers + 0.5])
            expected = (x + 1.0).tolist()
            try:
                grpc_, rest = (
                    ask_grpc(self._server, self._model, x),
                    ask_rest(self._server, self._model, x.tolist()),
                )
                if [grpc_.tolist(), rest.json().get("predictions")] != [expected, expected]:
                    self.wrong.append(f"{expected}: {grpc_}, {rest.text[:100]}")
            except Exception as error:
                self.wrong.append(repr(error)[:300])
            self.answers += 1


def ask_grpc(server: Server, model: str, x: np.ndarray) -> np.ndarray:
    """On a connection of its own."""
    options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(f"127.0.0.1:{server.port}", options) as channel:
        stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
        answer = stub.Predict(predict_request(model, x=x), timeout=30)
    return tf.make_ndarray(answer.outputs["y"])


def ask_rest(server: Server, model: str, instances: list) -> requests.Response:
    url = server.url(f"/v1/models/{model}:predict")
    return requests.post(url, json={"instances": instances}, timeout=30)


@pytest.mark.parametrize("model", SHAPES)
def test_shapes_that_were_not_promised(server: Server, model: str) -> None:
    shape = SHAPES[model][1]
    neighbour = Neighbours(server, model)
    with bystanders(server) as others:
        neighbour.start()
        for _ in range(20):
            got = ask_grpc(server, model, np.float32([DEMAND, DEMAND]))
            assert list(got.shape) == shape
            answer = ask_rest(server, model, [DEMAND, DEMAND])
            if shape:
                assert np.shape(answer.json()["predictions"]) == tuple(shape)
            else:
                assert answer.status_code == 400
                assert "no shape information" in answer.json()["error"]
        others.served(3)
        neighbour.stop.set()
        neighbour.join()
    assert neighbour.answers > 3
    assert not neighbour.wrong


@pytest.mark.parametrize("model", ["numbers", "strings"])
def test_answers_without_measure(server: Server, model: str) -> None:
    size = MANY if model == "numbers" else MANY // 4
    with bystanders(server, growth=900 * MB) as others:

        def attack() -> None:
            for _ in range(TURNS):
                sizes.append(ask_grpc(server, model, np.float32([DEMAND])).size)
                answer = ask_rest(server, model, [DEMAND])
                told.append(answer.status_code)
                if answer.ok:
                    sizes.append(answer.content.count(b",") + 1)

        sizes: list[int] = []
        told: list[int] = []
        attackers = [threading.Thread(target=attack) for _ in range(2)]
        for attacker in attackers:
            attacker.start()
        others.served(20)
        for attacker in attackers:
            attacker.join()
    assert set(sizes) == {size}
    assert set(told) <= {200, 413, 503}
    assert len(told) == 2 * TURNS
