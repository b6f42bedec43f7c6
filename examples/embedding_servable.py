"""Serve what is no model: a lookup table of embeddings, over gRPC and REST.

    python examples/embedding_servable.py

writes a table to a temporary directory, serves it, and asks for vectors both ways.
To serve a table of your own, start the server in the directory of this file:

    estimand serve --model_name=words --model_base_path=/models/words \\
        --servable=embedding_servable:EmbeddingTable --rest_api_port=8501
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import tensorflow as tf

from estimand.serving import CustomServable, ServableSignature


class EmbeddingTable(CustomServable):
    """`words.txt` and `vectors.npy` in a version's directory: a line and a row for each word."""

    rows_are_independent = True  # requests that wait may be answered by one lookup

    def __init__(self, words: list[str], vectors: np.ndarray) -> None:
        self._rows = {word.encode(): row for row, word in enumerate(words)}
        self._vectors = vectors

    @classmethod
    def load(cls, directory: str) -> EmbeddingTable:
        words = Path(directory, "words.txt").read_text(encoding="utf-8").split()
        vectors = np.load(Path(directory, "vectors.npy"), allow_pickle=False)
        if len(words) != len(vectors):  # fails this version; the one before it keeps serving
            raise ValueError(f"{directory} has {len(words)} words and {len(vectors)} vectors")
        return cls(words, vectors.astype(np.float32))

    def signatures(self) -> Mapping[str, ServableSignature]:
        size = self._vectors.shape[1]
        words = {"word": tf.TensorSpec([None], tf.string)}
        return {
            "serving_default": ServableSignature(
                words, {"vector": tf.TensorSpec([None, size], tf.float32)}
            ),
            "nearest": ServableSignature(
                words,
                {
                    "neighbour": tf.TensorSpec([None], tf.string),
                    "cosine": tf.TensorSpec([None], tf.float32),
                },
            ),
        }

    def warm_up(self) -> None:
        self.call("nearest", {"word": np.array([next(iter(self._rows))], np.object_)})

    def call(self, signature: str, inputs: dict[str, np.ndarray]) -> Mapping[str, object]:
        unknown = [word for word in inputs["word"] if word not in self._rows]
        if unknown:
            raise ValueError(f"{unknown[0].decode()!r} is not in the table")
        rows = [self._rows[word] for word in inputs["word"]]
        if signature == "serving_default":
            return {"vector": self._vectors[rows]}
        unit = self._vectors / np.linalg.norm(self._vectors, axis=1, keepdims=True)
        cosines = unit[rows] @ unit.T
        cosines[np.arange(len(rows)), rows] = -1.0  # a word is not its own neighbour
        best = cosines.argmax(axis=1)
        words = np.array(list(self._rows), np.object_)
        return {"neighbour": words[best], "cosine": cosines.max(axis=1)}


def write_table(directory: Path, table: Mapping[str, list[float]]) -> None:
    """As exports do: the version appears when it is whole."""
    unfinished = directory.with_name(f"temp-{directory.name}")
    unfinished.mkdir(parents=True)
    (unfinished / "words.txt").write_text("\n".join(table), encoding="utf-8")
    np.save(unfinished / "vectors.npy", np.float32(list(table.values())))
    unfinished.rename(directory)


@contextlib.contextmanager
def served(base: Path) -> Iterator[tuple[int, int]]:
    """The ports of gRPC and REST."""
    with socket.socket() as one, socket.socket() as other:
        one.bind(("127.0.0.1", 0))
        other.bind(("127.0.0.1", 0))
        ports = one.getsockname()[1], other.getsockname()[1]
    here = str(Path(__file__).resolve().parent)
    path = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
    command = [sys.executable, "-m", "estimand", "serve", "--model_name=words"]
    command += [f"--model_base_path={base}", "--servable=embedding_servable:EmbeddingTable"]
    command += [f"--port={ports[0]}", f"--rest_api_port={ports[1]}"]
    server = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path})
    try:
        for _ in range(600):
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{ports[1]}/readyz").close()
                break
            time.sleep(0.1)
        else:
            raise SystemExit("The server did not become ready.")
        yield ports
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def main() -> None:
    import grpc
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    table = {"cat": [1.0, 0.1, 0.0], "dog": [0.9, 0.3, 0.0], "car": [0.0, 0.1, 1.0]}
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder, "words")
        write_table(base / "1", table)
        with served(base) as (grpc_port, rest_port):
            request = predict_pb2.PredictRequest()
            request.model_spec.name = "words"
            request.inputs["word"].CopyFrom(tf.make_tensor_proto(["cat", "car"]))
            with grpc.insecure_channel(f"127.0.0.1:{grpc_port}") as channel:
                stub = prediction_service_pb2_grpc.PredictionServiceStub(channel)
                answer = stub.Predict(request, timeout=10)
            print("gRPC:", tf.make_ndarray(answer.outputs["vector"]).tolist())

            body = json.dumps({"signature_name": "nearest", "instances": ["cat"]}).encode()
            url = f"http://127.0.0.1:{rest_port}/v1/models/words:predict"
            with urllib.request.urlopen(url, body) as response:
                print("REST: nearest to cat:", json.load(response)["predictions"][0]["neighbour"])


if __name__ == "__main__":
    main()
