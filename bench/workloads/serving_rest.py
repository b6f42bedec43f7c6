"""REST `:predict` of one row through a small network (32, 128, 64, 10)."""

from __future__ import annotations

import functools
from collections.abc import Callable

from environments import WEB
from workload import Target, Workload

from workloads import serving

_OURS = "Estimand"
_LITSERVE = "LitServe, session"
_FASTAPI = "FastAPI, keras model(x)"
_BARE = "bare uvicorn, orjson, session"
_BAREST = "bare httptools, orjson, session (limit)"


def _loads(port: int) -> dict[str, Callable[[float], serving.Load]]:
    return {f"c{n}": functools.partial(serving.wrk, port, n) for n in (32, 1)}


_RACE = serving.Race(
    serving.ask_rest, _loads, lambda port: ("--port=0", f"--rest_api_port={port}"), "wrk"
)

WORKLOAD = Workload(
    title="REST predict, one row, small network",
    contestants=[
        _RACE.ours(_OURS),
        _RACE.peer(_BARE, "bare_asgi"),
        _RACE.peer(_BAREST, "barest_http"),
        _RACE.peer(_LITSERVE, "litserve_session", WEB),
        _RACE.peer(_FASTAPI, "fastapi_keras", WEB),
    ],
    measures=serving.measures(c32="32 connections", c1="1 connection"),
    baseline=[_BARE],
    targets=[
        Target(_OURS, [other], at_least=limit, measure=measure)
        for measure in ("c32", "c32_cpu")
        for other, limit in ((_LITSERVE, 15), (_FASTAPI, 50), (_BARE, 1.5))
    ],
    rounds=9,
    quick_rounds=3,
)
