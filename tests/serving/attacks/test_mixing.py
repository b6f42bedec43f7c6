"""Nobody gets another client's rows: models whose rows depend on each other, some only rarely."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import grpc
import numpy as np
import pytest
import requests
import tensorflow as tf
from tensorflow_serving.apis import prediction_service_pb2_grpc

from tests.serving import making
from tests.serving.running import Server, config_text, predict_request

ASKED = 60  # by each client
CLIENTS = 12


def _rarely_shifted(x):
    shifted = tf.concat([x[:1], x[:-1]], 0)
    return {"y": tf.cond(tf.reduce_max(x) > 1000.0, lambda: shifted, lambda: x * 2.0)}


def _rarely_sorted(x):
    return {"y": tf.where(tf.reduce_max(x) > 1000.0, tf.sort(x, axis=0), x * 2.0)}


def _until_all_are_small(x):
    (y,) = tf.while_loop(lambda y: tf.reduce_max(y) > 1000.0, lambda y: [y / 2.0], [x])
    return {"y": y}


def _row_by_row(x):
    return {"y": tf.nn.relu(x) * 2.0}


MODELS = {
    "shifted": _rarely_shifted,
    "sorted": _rarely_sorted,
    "loop": _until_all_are_small,
    "relu": _row_by_row,
}


@pytest.fixture(scope="module", params=["grpcio", "lean"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp(request.param)
    for name, function in MODELS.items():
        specs = {"x": tf.TensorSpec([None, 1], tf.float32)}
        making.write_function(folder / name / "1", function, specs)
    config = folder / "models.config"
    config.write_text(config_text({name: str(folder / name) for name in MODELS}))
    backend = f"--grpc_backend={request.param}"
    running = Server(folder / "log", f"--model_config_file={config}", backend)
    try:
        running.wait_until_ready()
        yield running
    finally:
        running.stop()


def expected(name: str, x: np.ndarray) -> np.ndarray:
    """What a client that is alone gets."""
    if name == "relu":
        return np.maximum(x, 0.0) * 2.0
    if x.max() <= 1000.0:
        return x if name == "loop" else x * 2.0
    if name == "sorted":
        return np.sort(x, axis=0)
    if name == "shifted":
        return np.concatenate([x[:1], x[:-1]])
    while x.max() > 1000.0:
        x = x / 2.0
    return x


class Client(threading.Thread):
    """Asks again and again, on a connection of its own, and compares."""

    def __init__(self, server: Server, name: str, number: int) -> None:
        super().__init__(name=f"client {number}")
        self.wrong: list[str] = []
        self.errors: list[str] = []
        self._server = server
        self._model = name
        self._number = number

    def run(self) -> None:
        random = np.random.default_rng(self._number)
        with requests.Session() as http, self._channel() as channel:
            stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
            asks: list[Callable] = [self._ask_rest(http), self._ask_grpc(stub)]
            for turn in range(ASKED):
                x = random.integers(1, 1000, size=(random.integers(1, 4), 1)).astype(np.float32)
                if random.random() < 0.03:
                    x[0] += 4096.0
                try:
                    y = asks[turn % 2](x)
                except Exception as error:
                    self.errors.append(repr(error)[:200])
                    continue
                if not np.array_equal(y, expected(self._model, x)):
                    self.wrong.append(f"{x.tolist()}: {y.tolist()}")

    def _channel(self) -> grpc.Channel:
        options = [("grpc.use_local_subchannel_pool", 1)]
        return grpc.insecure_channel(f"127.0.0.1:{self._server.port}", options)

    def _ask_rest(self, http: requests.Session) -> Callable[[np.ndarray], np.ndarray]:
        url = self._server.url(f"/v1/models/{self._model}:predict")

        def ask(x: np.ndarray) -> np.ndarray:
            answer = http.post(url, json={"instances": x.tolist()}, timeout=30)
            answer.raise_for_status()
            return np.float32(answer.json()["predictions"])

        return ask

    def _ask_grpc(self, stub) -> Callable[[np.ndarray], np.ndarray]:
        def ask(x: np.ndarray) -> np.ndarray:
            answer = stub.Predict(predict_request(self._model, x=x), timeout=30)
            return tf.make_ndarray(answer.outputs["y"])

        return ask


@pytest.mark.parametrize("name", MODELS)
def test_every_client_gets_its_own_answers(server: Server, name: str) -> None:
    clients = [Client(server, name, number) for number in range(CLIENTS)]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    assert [one for client in clients for one in client.errors] == []
    assert [one for client in clients for one in client.wrong] == []
