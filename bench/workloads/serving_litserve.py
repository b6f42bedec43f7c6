"""LitServe's side of `serving_peers`: a module of its own, for its workers import the class."""

from __future__ import annotations

from typing import Any

import litserve
import numpy as np


class Api(litserve.LitAPI):
    """With LitServe's batching, and the fastest way into TensorFlow."""

    model = ""

    def setup(self, device: Any) -> None:
        from workloads.serving_peers import session_callable

        self.run = session_callable(self.model)

    # Without a type for the request: LitServe would take it for the one of a query's field.
    def decode_request(self, request):  # type: ignore[no-untyped-def]
        return np.asarray(request["instances"], np.float32)

    def batch(self, inputs: list[np.ndarray]) -> np.ndarray:
        self.ends = np.cumsum([len(x) for x in inputs])[:-1]
        return np.concatenate(inputs)

    def predict(self, x: np.ndarray) -> np.ndarray:
        return self.run(x)

    def unbatch(self, output: np.ndarray) -> list[np.ndarray]:
        return np.split(output, self.ends)

    def encode_response(self, output: np.ndarray) -> dict[str, Any]:
        return {"predictions": output.tolist()}


def serve(port: int, model: str, path: str) -> None:
    api = Api(api_path=path, max_batch_size=32, batch_timeout=0.001)
    api.model = model
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1)
    server.run(host="127.0.0.1", port=port, generate_client_file=False, log_level="critical")
