"""What the serving workloads share: models, servers in processes of their own, and load on them.

Load comes from wrk (REST) and h2load (gRPC), on the same machine. In a turn the server of that
contestant is loaded for a second, one concurrency after the other, while the others' servers sit
idle. Besides rate and latencies, each turn reports the CPU time the server needed for a request:
the steadiest of the values on a shared machine.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from environments import PROJECT
from turns import Turns
from workload import Contestant, Measure

SMALL = (32, 128, 64, 10)
LARGE = (32, 2048, 2048, 10)  # 4 million weights
NAME = "dnn"
PREDICT = "/tensorflow.serving.PredictionService/Predict"
_SECONDS_TO_START = 120.0
_TICKS = os.sysconf("SC_CLK_TCK")

Weights = list[tuple[np.ndarray, np.ndarray]]


# ---------------------------------------------------------------- the model


def weights(sizes: Sequence[int]) -> Weights:
    random = np.random.default_rng(0)
    return [
        (
            random.normal(scale=ins**-0.5, size=(ins, outs)).astype(np.float32),
            random.normal(scale=0.1, size=outs).astype(np.float32),
        )
        for ins, outs in itertools.pairwise(sizes)
    ]


def example() -> np.ndarray:
    """The one row that every request asks about."""
    return np.random.default_rng(1).normal(size=(1, 32)).round(4).astype(np.float32)


def expected(sizes: Sequence[int]) -> np.ndarray:
    """Its answer by NumPy."""
    net, layers = example(), weights(sizes)
    for i, (w, b) in enumerate(layers):
        net = net @ w + b
        if i + 1 < len(layers):
            net = np.maximum(net, 0)
    raised = np.exp(net - net.max())
    return raised / raised.sum()


def base_path(sizes: Sequence[int] = SMALL) -> Path:
    """The directory of the model's versions; the first contestant to come writes it."""
    base = Path(tempfile.gettempdir()) / f"{NAME}_{sizes[1]}"
    if not base.exists():
        write_version(base / "1", sizes)
    return base


def write_version(directory: Path, sizes: Sequence[int]) -> None:
    import tensorflow as tf

    class Network(tf.Module):
        def __init__(self) -> None:
            self.layers = [(tf.Variable(w), tf.Variable(b)) for w, b in weights(sizes)]

        @tf.function(input_signature=[tf.TensorSpec([None, sizes[0]], tf.float32, name="x")])
        def call(self, x: Any) -> dict[str, Any]:
            for i, (w, b) in enumerate(self.layers):
                x = tf.matmul(x, w) + b
                if i + 1 < len(self.layers):
                    x = tf.nn.relu(x)
            return {"probabilities": tf.nn.softmax(x)}

    network = Network()
    unfinished = directory.with_name(f"unfinished-{directory.name}")
    tf.saved_model.save(network, str(unfinished), signatures={"serving_default": network.call})
    unfinished.rename(directory)


def rest_body() -> bytes:
    return json.dumps({"instances": example().astype(float).round(4).tolist()}).encode()


def grpc_body() -> bytes:
    from tensorflow_serving.apis import predict_pb2

    request = predict_pb2.PredictRequest()
    request.model_spec.name = NAME
    request.inputs["x"].dtype = 1
    for size in example().shape:
        request.inputs["x"].tensor_shape.dim.add(size=size)
    request.inputs["x"].tensor_content = example().tobytes()
    return request.SerializeToString()


# ---------------------------------------------------------------- servers


# Contestants end without notice. This notices, and takes the server along.
_GUARD = """
import os, signal, subprocess, sys
served = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
sys.stdin.read()
os.killpg(0, signal.SIGKILL)
"""


class Served:
    """A server's process, and all that it starts."""

    def __init__(self, command: Sequence[str], port: int) -> None:
        self.port = port
        self._guard = subprocess.Popen(
            [sys.executable, "-S", "-c", _GUARD, *command],
            stdin=subprocess.PIPE,
            stdout=sys.stderr,
            start_new_session=True,
            env={**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0"},
        )

    def cpu_seconds(self) -> float:
        """Of its session: some servers are several processes."""
        total = 0
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with contextlib.suppress(OSError):
                    fields = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                    if int(fields[3]) == self._guard.pid:
                        total += int(fields[11]) + int(fields[12])
        return total / _TICKS

    def stop(self) -> None:
        assert self._guard.stdin is not None
        self._guard.stdin.close()
        self._guard.wait()

    def wait_until(self, ask: Callable[[], np.ndarray], right: np.ndarray) -> None:
        """Until it answers; the answer must be right."""
        ends = time.monotonic() + _SECONDS_TO_START
        while True:
            try:
                answer = ask()
                break
            except Exception as error:
                if time.monotonic() > ends:
                    raise RuntimeError("the server does not answer") from error
                time.sleep(0.2)
        np.testing.assert_allclose(answer, right, rtol=1e-4, atol=1e-6)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def estimand_command(base: Path, *flags: str) -> list[str]:
    command = [sys.executable, "-m", "estimand", "serve", f"--model_name={NAME}"]
    return [*command, f"--model_base_path={base}", *flags]


def estimand_serves(config: Path, port: int) -> list[str]:
    """Several models, over REST alone."""
    command = [sys.executable, "-m", "estimand", "serve", "--port=0", f"--rest_api_port={port}"]
    return [*command, f"--model_config_file={config}"]


def peer_command(name: str, port: int, sizes: Sequence[int] = SMALL) -> list[str]:
    script = Path(__file__).parent / "serving_peers.py"
    return [sys.executable, str(script), name, str(port), str(base_path(sizes) / "1")]


def ask_rest(port: int, name: str = NAME) -> np.ndarray:
    url = f"http://127.0.0.1:{port}/v1/models/{name}:predict"
    request = urllib.request.Request(url, rest_body(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return np.array(json.load(answer)["predictions"])


def check_version(port: int, number: int) -> None:
    """It must have taken over by now."""
    url = f"http://127.0.0.1:{port}/v1/models/{NAME}/versions/{number}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        (state,) = json.load(answer)["model_version_status"]
    if state["state"] != "AVAILABLE":
        raise RuntimeError(f"version {number} is {state['state']} after the load, not during it")


def ask_grpc(port: int) -> np.ndarray:
    import grpc
    from tensorflow_serving.apis import predict_pb2

    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        answer = channel.unary_unary(PREDICT)(grpc_body(), timeout=10)
    tensor = predict_pb2.PredictResponse.FromString(answer).outputs["probabilities"]
    return np.array([tensor.float_val])


# ---------------------------------------------------------------- load


@dataclass(frozen=True)
class Load:
    """What a load tool saw."""

    requests: int
    failed: int
    rate: float
    p50: float  # milliseconds
    p99: float


def tools_are_there(*names: str) -> None:
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        sys.exit(f"{', '.join(missing)} not found: apt install wrk nghttp2-client")


def wrk(port: int, connections: int, seconds: float, names: Sequence[str] = (NAME,)) -> Load:
    """Ask one of the models after the other."""
    script = Path(tempfile.gettempdir()) / f"wrk-{os.getpid()}.lua"
    body = rest_body().decode().replace('"', '\\"')
    script.write_text(
        'wrk.method = "POST"\nwrk.headers["Content-Type"] = "application/json"\n'
        f'wrk.body = "{body}"\n' + (_in_turn(names) if len(names) > 1 else "")
    )
    url = f"http://127.0.0.1:{port}/v1/models/{names[0]}:predict"
    options = ["-t1", f"-c{connections}", f"-d{seconds:g}s", "--latency", "-s", str(script)]
    text = _output_of(["wrk", *options, url])
    found = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    refused = int(found[1]) if found else 0
    found = re.search(r"Socket errors: (.*)", text)
    lost = sum(map(int, re.findall(r"\d+", found[1]))) if found else 0
    return Load(
        int(_found(r"(\d+) requests in", text)) - refused,
        refused + lost,
        float(_found(r"Requests/sec:\s+([\d.]+)", text)),
        _milliseconds(_found(r"\n\s+50%\s+(\S+)", text)),
        _milliseconds(_found(r"\n\s+99%\s+(\S+)", text)),
    )


def _in_turn(names: Sequence[str]) -> str:
    paths = ", ".join(f'"/v1/models/{name}:predict"' for name in names)
    return (
        f"local paths, turn = {{{paths}}}, 0\n"
        "request = function()\n  turn = turn % #paths + 1\n"
        "  return wrk.format(nil, paths[turn])\nend\n"
    )


_rates: dict[tuple[int, int, int], float] = {}


def h2load(port: int, connections: int, streams: int, seconds: float) -> Load:
    """About so many seconds: the number of requests is set, by the rate of the last time."""
    key = (port, connections, streams)
    count = max(int(_rates.get(key, 500.0) * seconds), connections * streams)
    folder = Path(tempfile.gettempdir())
    body, log = (folder / f"h2load-{os.getpid()}.{end}" for end in ("body", "log"))
    message = grpc_body()
    body.write_bytes(b"\0" + len(message).to_bytes(4) + message)
    log.unlink(missing_ok=True)
    options = [f"-n{count}", f"-c{connections}", f"-m{streams}", "-t1", f"-d{body}"]
    headers = ["-H", "content-type: application/grpc", "-H", "te: trailers"]
    url = f"http://127.0.0.1:{port}{PREDICT}"
    text = _output_of(["h2load", *options, *headers, "--log-file", str(log), url])
    # Each line: when, HTTP status, microseconds.
    times = sorted(int(line.split()[2]) for line in log.read_text().splitlines())
    rate = _rates[key] = float(_found(r"finished in .*?, ([\d.]+) req/s", text))
    return Load(
        int(_found(r"(\d+) succeeded", text)),
        int(_found(r"(\d+) failed", text)),
        rate,
        times[len(times) // 2] / 1000,
        times[len(times) * 99 // 100] / 1000,
    )


def _output_of(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _found(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    if found is None:
        raise RuntimeError(f"no {pattern} in:\n{text}")
    return found[1]


def _milliseconds(text: str) -> float:
    """
    >>> _milliseconds("1.50ms"), _milliseconds("2.00s"), _milliseconds("150.00us")
    (1.5, 2000.0, 0.15)
    """
    number = float(_found(r"([\d.]+)", text))
    return number * {"us": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4}[text.lstrip("0123456789.")]


def take_turns(turns: Turns, server: Served, loads: dict[str, Callable[[float], Load]]) -> None:
    """Report `KEY`, `KEY_cpu`, `KEY_p50`, `KEY_p99` and `KEY_good` of each load, turn by turn."""
    seconds = 1.0 if turns.quick else 2.0
    for load in loads.values():
        load(1.0)
    while True:
        turns.wait()
        values: dict[str, float] = {}
        for key, load in loads.items():
            before = server.cpu_seconds()
            seen = load(seconds)
            cpu = server.cpu_seconds() - before
            values[key] = seen.rate
            values[f"{key}_cpu"] = cpu / max(seen.requests, 1) * 1e6
            values[f"{key}_p50"] = seen.p50
            values[f"{key}_p99"] = seen.p99
            values[f"{key}_good"] = 100 * seen.requests / (seen.requests + seen.failed)
        turns.report(**values)


Loads = Callable[[int], dict[str, Callable[[float], Load]]]  # of a port


@dataclass(frozen=True)
class Race:
    """One row through the small network: how a server is asked, and loaded."""

    ask: Callable[[int], np.ndarray]
    loads: Loads
    flags: Callable[[int], tuple[str, ...]]  # that make our server listen at a port
    tool: str

    def ours(self, name: str, *flags: str) -> Contestant:
        def command(port: int) -> list[str]:
            return estimand_command(base_path(), *self.flags(port), *flags)

        return Contestant(name, PROJECT, functools.partial(self._run, command))

    def peer(self, name: str, which: str, environment: str = PROJECT) -> Contestant:
        return Contestant(
            name, environment, functools.partial(self._run, functools.partial(peer_command, which))
        )

    def _run(self, command: Callable[[int], list[str]], turns: Turns) -> None:
        tools_are_there(self.tool)
        port = free_port()
        server = Served(command(port), port)
        server.wait_until(lambda: self.ask(port), expected(SMALL))
        take_turns(turns, server, self.loads(port))


def measures(**titles: str) -> list[Measure]:
    """Those of each load: its key, and what it is."""
    return [one for key, title in titles.items() for one in _measures_of(key, title)]


def _measures_of(key: str, title: str) -> list[Measure]:
    return [
        Measure(key, title, "requests/s"),
        Measure(f"{key}_cpu", f"{title}: CPU of the server", "µs/request", "seconds"),
        Measure(f"{key}_p50", f"{title}: median latency", "ms", "seconds"),
        Measure(f"{key}_p99", f"{title}: 99th percentile", "ms", "seconds"),
    ]
