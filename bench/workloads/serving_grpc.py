"""gRPC `Predict` of one row through a small network (32, 128, 64, 10).

h2load is a client that costs next to nothing; `stub` is the client people have, in Python, which
needs more CPU time than any of the servers.
"""

from __future__ import annotations

import functools
import threading
import time

from environments import PROJECT
from turns import Turns
from workload import Contestant, Target, Workload

from workloads import serving

_GRPCIO = "Estimand, grpcio"
_LEAN = "Estimand, lean"
_NAIVE = "grpcio, loaded signature"
_BARE = "bare HTTP/2, session"
_STUB_THREADS = 8


def _stub(port: int, seconds: float) -> serving.Load:
    import grpc
    from tensorflow_serving.apis import predict_pb2, prediction_service_pb2_grpc

    request = predict_pb2.PredictRequest.FromString(serving.grpc_body())
    times: list[float] = []

    def ask(predict: grpc.UnaryUnaryMultiCallable, ends: float) -> None:
        while (start := time.perf_counter()) < ends:
            predict(request, timeout=10)
            times.append(time.perf_counter() - start)

    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        predict = prediction_service_pb2_grpc.PredictionServiceStub(channel).Predict
        predict(request, timeout=10)
        ends = time.perf_counter() + seconds
        threads = [threading.Thread(target=ask, args=(predict, ends)) for _ in range(_STUB_THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    times.sort()
    count = len(times)
    p50, p99 = times[count // 2] * 1000, times[count * 99 // 100] * 1000
    return serving.Load(count, 0, count / seconds, p50, p99)


def _race(turns: Turns, command: list[str], port: int) -> None:
    serving.tools_are_there("h2load")
    server = serving.Served(command, port)
    server.wait_until(lambda: serving.ask_grpc(port), serving.expected(serving.SMALL))
    loads = {
        "c32": functools.partial(serving.h2load, port, 32, 1),
        "c1": functools.partial(serving.h2load, port, 1, 1),
        "streams": functools.partial(serving.h2load, port, 1, 32),
        "stub": functools.partial(_stub, port),
    }
    serving.take_turns(turns, server, loads)


def estimand(backend: str, turns: Turns) -> None:
    port = serving.free_port()
    flags = (f"--port={port}", f"--grpc_backend={backend}")
    _race(turns, serving.estimand_command(serving.base_path(), *flags), port)


def peer(name: str, turns: Turns) -> None:
    port = serving.free_port()
    _race(turns, serving.peer_command(name, port), port)


WORKLOAD = Workload(
    title="gRPC Predict, one row, small network",
    contestants=[
        Contestant(_GRPCIO, PROJECT, functools.partial(estimand, "grpcio")),
        Contestant(_LEAN, PROJECT, functools.partial(estimand, "lean")),
        Contestant(_NAIVE, PROJECT, functools.partial(peer, "grpcio_eager")),
        Contestant(_BARE, PROJECT, functools.partial(peer, "bare_http2")),
    ],
    measures=[
        *serving.measures("c32", "32 connections"),
        *serving.measures("c1", "1 connection"),
        *serving.measures("streams", "1 connection, 32 streams"),
        *serving.measures("stub", f"Python stub, {_STUB_THREADS} threads"),
    ],
    baseline=[_NAIVE],
    targets=[
        Target(_GRPCIO, [_NAIVE], at_least=1.7, measure="c32"),
        Target(_LEAN, [_GRPCIO], at_least=2.5, measure="c32"),
        Target(_LEAN, [_BARE], at_least=0.75, measure="c32"),
        Target(_GRPCIO, [_NAIVE], at_least=1.7, measure="c32_cpu"),
        Target(_LEAN, [_GRPCIO], at_least=2.5, measure="c32_cpu"),
        Target(_LEAN, [_BARE], at_least=0.75, measure="c32_cpu"),
    ],
    rounds=9,
    quick_rounds=3,
)
