"""REST `:predict` of one row through a small network (32, 128, 64, 10)."""

from __future__ import annotations

import functools
from collections.abc import Callable

from environments import PROJECT, WEB
from turns import Turns
from workload import Contestant, Target, Workload

from workloads import serving

_OURS = "Estimand"
_LITSERVE = "LitServe, session"
_FASTAPI = "FastAPI, keras model(x)"
_BARE = "bare uvicorn, orjson, session"


def _loads(port: int) -> dict[str, Callable[[float], serving.Load]]:
    serving.tools_are_there("wrk")
    return {f"c{n}": functools.partial(serving.wrk, port, n) for n in (1, 32)}


def _race(turns: Turns, command: list[str], port: int) -> None:
    server = serving.Served(command, port)
    server.wait_until(lambda: serving.ask_rest(port), serving.expected(serving.SMALL))
    serving.take_turns(turns, server, _loads(port))


def estimand(turns: Turns) -> None:
    port = serving.free_port()
    flags = ("--port=0", f"--rest_api_port={port}")
    _race(turns, serving.estimand_command(serving.base_path(), *flags), port)


def peer(name: str, turns: Turns) -> None:
    port = serving.free_port()
    _race(turns, serving.peer_command(name, port), port)


WORKLOAD = Workload(
    title="REST predict, one row, small network",
    contestants=[
        Contestant(_OURS, PROJECT, estimand),
        Contestant(_BARE, PROJECT, functools.partial(peer, "bare_asgi")),
        Contestant(_LITSERVE, WEB, functools.partial(peer, "litserve_session")),
        Contestant(_FASTAPI, WEB, functools.partial(peer, "fastapi_keras")),
    ],
    measures=[
        *serving.measures("c32", "32 connections"),
        *serving.measures("c1", "1 connection"),
    ],
    baseline=[_BARE],
    targets=[
        Target(_OURS, [_LITSERVE], at_least=15, measure="c32"),
        Target(_OURS, [_FASTAPI], at_least=50, measure="c32"),
        Target(_OURS, [_BARE], at_least=0.75, measure="c32"),
        Target(_OURS, [_BARE], at_least=0.75, measure="c32_cpu"),
    ],
    rounds=9,
    quick_rounds=3,
)
