"""Large requests that do not come, and many at once: others send theirs all the same."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import numpy as np
import requests

from estimand.serving.lean import frames
from tests.serving.attacks.watching import bystanders
from tests.serving.lean.fake import Raw
from tests.serving.running import Server, predict_request

PREDICT = "/tensorflow.serving.PredictionService/Predict"
MB = 2**20


def large_predict(server: Server, value: float) -> None:
    """7 MB of numbers."""
    rows = np.full(900_000, value, np.float32)
    request = predict_request("two_inputs", a=rows, b=rows)
    request.output_filter.append("sum")
    answer = server.prediction.Predict(request, timeout=60)
    assert answer.outputs["sum"].float_val[0] == 2 * value


@contextlib.contextmanager
def idle_streams(server: Server, count: int, size: int) -> Iterator[list[Raw]]:
    """Calls that announce a message of a size, send its start, and then a byte now and then."""
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(Raw(server.port)) for _ in range(count)]
        for raw in peers:
            start = b"\0" + frames.pack_u32(size) + bytes(16_000)
            raw.send(raw.opening(1, path=PREDICT), frames.frame(frames.DATA, 0, 1, start))
        yield peers


def test_streams_that_announce_much_and_send_little(attacked: Server) -> None:
    with idle_streams(attacked, 24, 60 * MB) as peers, bystanders(attacked) as others:
        large_predict(attacked, 1.5)
        for raw in peers:
            raw.send(frames.frame(frames.DATA, 0, 1, b"a"))
        large_predict(attacked, 2.5)
        others.served(5)


def test_bodies_that_announce_much_and_send_little(attacked: Server) -> None:
    head = b"POST /v1/models/two_inputs:predict HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
    address = ("127.0.0.1", attacked.rest_port)
    with contextlib.ExitStack() as stack, bystanders(attacked, growth=300 * MB) as others:
        for _ in range(24):
            client = stack.enter_context(socket.create_connection(address, timeout=20))
            client.sendall(head % (60 * MB) + b" " * 100_000)
        rows = [{"a": 1, "b": 2}] * 200_000
        answer = requests.post(
            attacked.url("/v1/models/two_inputs:predict"), json={"instances": rows}, timeout=60
        )
        assert answer.status_code == 200
        assert len(answer.json()["predictions"]) == len(rows)
        others.served(5)


def test_many_large_bodies_at_once(attacked: Server) -> None:
    """More than there is room for: all are answered, one after the other, or told that there is
    none."""
    codes: list[int] = []

    def send() -> None:
        body = b'{"instances": [' + b" " * (20 * MB) + b'{"a": 1, "b": 2}]}'
        url = attacked.url("/v1/models/two_inputs:predict")
        codes.append(requests.post(url, body, timeout=60).status_code)

    threads = [threading.Thread(target=send) for _ in range(10)]
    with bystanders(attacked, growth=400 * MB) as others:
        for thread in threads:
            thread.start()
        others.served(10)
        for thread in threads:
            thread.join()
    assert set(codes) <= {200, 429}
    assert 200 in codes
