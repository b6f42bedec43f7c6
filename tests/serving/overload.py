"""What a server does with three times as many requests as it can answer. Prints figures.

    python -m tests.serving.overload --seconds 20 -- --max_queue_seconds=0.5

A model takes a quarter of a second a call. First its capacity is measured; then clients ask for as
much as that, and then for `--times` as much, without waiting for answers, while another asks the
same model now and then, and one another model. What is admitted should take as long as at capacity.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import threading
import time
from pathlib import Path

import grpc
import numpy as np
from tensorflow_serving.apis import prediction_service_pb2_grpc

from tests.serving import making
from tests.serving.fuzz.sockets import part_of
from tests.serving.running import Server, config_text, predict_request


class Client:
    """Of a model, on a connection of its own. Keeps how long each answer took, by its code."""

    def __init__(self, server: Server, model: str, **arrays: np.ndarray) -> None:
        options = [("grpc.use_local_subchannel_pool", 1)]
        self.channel = grpc.insecure_channel(f"127.0.0.1:{server.port}", options)
        self._stub = prediction_service_pb2_grpc.PredictionServiceStub(self.channel)
        self._request = predict_request(model, **arrays)
        self._lock = threading.Lock()
        self.seconds: dict[str, list[float]] = {}
        self.pushed_back = 0

    def ask(self) -> grpc.Future:
        began = time.monotonic()
        call = self._stub.Predict.future(self._request, timeout=60)
        call.add_done_callback(lambda one: self._note(one, time.monotonic() - began))
        return call

    def _note(self, call: grpc.Future, seconds: float) -> None:
        with self._lock:
            self.seconds.setdefault(call.code().name, []).append(seconds)
            told = dict(call.trailing_metadata() or ())
            self.pushed_back += "grpc-retry-pushback-ms" in told

    def one_by_one(self, ends: float, pause: float = 0.0) -> None:
        while time.monotonic() < ends:
            with contextlib.suppress(grpc.RpcError):
                self.ask().result()
            time.sleep(pause)

    def line(self) -> str:
        parts = []
        for code, seconds in sorted(self.seconds.items()):
            times = sorted(seconds)
            half, most = (1000 * part_of(times, part) for part in (0.5, 0.99))
            parts.append(f"{len(times):,} {code}: half within {half:.0f} ms, 99 % {most:.0f} ms")
        told = f"{self.pushed_back} told when to come again"
        return "; ".join([*parts, told] if self.pushed_back else parts)


def capacity(server: Server, seconds: float) -> tuple[float, Client]:
    """Calls in a second of 16 who each wait for their answer."""
    client = Client(server, "slow", x=np.float32([1.0]))
    ends = time.monotonic() + seconds
    threads = [threading.Thread(target=client.one_by_one, args=(ends,)) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(client.seconds.get("OK", [])) / seconds, client


def overloaded(server: Server, seconds: float, rate: float) -> dict[str, Client]:
    slow = {"x": np.float32([1.0])}
    clients = {
        "who floods": Client(server, "slow", **slow),
        "who floods half as much": Client(server, "slow", **slow),
        "another, the same model": Client(server, "slow", **slow),
        "another, another model": Client(
            server, "two_inputs", a=np.float32([1.0]), b=np.float32([2.0])
        ),
    }
    ends = time.monotonic() + seconds
    flood, half_flood, *others = clients.values()
    threads = [threading.Thread(target=one.one_by_one, args=(ends, 0.2)) for one in others]
    for thread in threads:
        thread.start()
    asked = []
    now = began = time.monotonic()
    while now < ends:
        is_due = len(asked) < (now - began) * rate
        if is_due:
            asked.append((half_flood if len(asked) % 3 == 2 else flood).ask())
        else:
            time.sleep(0.001)
        now = time.monotonic()
    for call in asked:
        with contextlib.suppress(grpc.RpcError):
            call.result()
    for thread in threads:
        thread.join()
    return clients


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--times", type=float, default=3.0)
    parser.add_argument("flags", nargs="*", help="of the server, after --")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        for name in ("slow", "two_inputs"):
            (base / name).mkdir()
            getattr(making, f"write_{name}")(base / name / "1")
        config = base / "config"
        config.write_text(config_text({name: str(base / name) for name in ("slow", "two_inputs")}))
        server = Server(base / "log", f"--model_config_file={config}", *given.flags)
        try:
            server.wait_until_ready()
            rate, alone = capacity(server, min(10.0, given.seconds))
            print(f"capacity: {rate:.1f} calls a second ({alone.line()})", flush=True)
            for times in (1.0, given.times):
                print(f"asked for {times * rate:.1f} a second, {times:g} times as much:")
                for who, client in overloaded(server, given.seconds, times * rate).items():
                    print(f"  {who}: {client.line()}", flush=True)
        finally:
            server.stop()


if __name__ == "__main__":
    main()
