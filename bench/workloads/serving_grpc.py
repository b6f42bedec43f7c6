"""gRPC `Predict` of one row through a small network (32, 128, 64, 10).

h2load is a client that costs next to nothing; `stub` is the client people have, in Python, which
needs more CPU time than any of the servers. There are two bare servers: one that reads the headers
of each request, and one that knows a block of headers again by its bytes, as ours does.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable

from workload import Target, Workload

from workloads import serving

_GRPCIO = "Estimand, grpcio"
_LEAN = "Estimand, lean"
_NAIVE = "grpcio, loaded signature"
_BARE = "bare HTTP/2, session"
_BAREST = "the same, headers known by their bytes"
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


def _loads(port: int) -> dict[str, Callable[[float], serving.Load]]:
    return {
        "c32": functools.partial(serving.h2load, port, 32, 1),
        "c1": functools.partial(serving.h2load, port, 1, 1),
        "streams": functools.partial(serving.h2load, port, 1, 32),
        "stub": functools.partial(_stub, port),
    }


_RACE = serving.Race(serving.ask_grpc, _loads, lambda port: (f"--port={port}",), "h2load")

WORKLOAD = Workload(
    title="gRPC Predict, one row, small network",
    contestants=[
        _RACE.ours(_GRPCIO, "--grpc_backend=grpcio"),
        _RACE.ours(_LEAN, "--grpc_backend=lean"),
        _RACE.peer(_NAIVE, "grpcio_eager"),
        _RACE.peer(_BARE, "bare_http2"),
        _RACE.peer(_BAREST, "barest_http2"),
    ],
    measures=serving.measures(
        c32="32 connections",
        c1="1 connection",
        streams="1 connection, 32 streams",
        stub=f"Python stub, {_STUB_THREADS} threads",
    ),
    baseline=[_NAIVE],
    targets=[
        Target(one, [other], at_least=limit, measure=measure)
        for measure in ("c32", "c32_cpu")
        for one, other, limit in (
            (_GRPCIO, _NAIVE, 1.7),
            (_LEAN, _GRPCIO, 2.5),
            (_LEAN, _BARE, 0.75),
            (_LEAN, _BAREST, 0.75),
        )
    ],
    rounds=9,
    quick_rounds=3,
)
