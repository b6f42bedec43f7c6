"""Adaptive batching on a network of 4 million weights (32, 2048, 2048, 10), over REST."""

from __future__ import annotations

import functools

from environments import PROJECT
from turns import Turns
from workload import Contestant, Target, Workload

from workloads import serving

_ON, _OFF = "batching", "no batching"


def estimand(on: bool, turns: Turns) -> None:
    serving.tools_are_there("wrk")
    port = serving.free_port()
    flags = ["--port=0", f"--rest_api_port={port}", f"--adaptive_batching={str(on).lower()}"]
    server = serving.Served(
        serving.estimand_command(serving.base_path(serving.LARGE), *flags), port
    )
    server.wait_until(lambda: serving.ask_rest(port), serving.expected(serving.LARGE))
    loads = {f"c{n}": functools.partial(serving.wrk, port, n) for n in (1, 32)}
    serving.take_turns(turns, server, loads)


WORKLOAD = Workload(
    title="Adaptive batching, REST predict of one row, 4 million weights",
    contestants=[
        Contestant(_ON, PROJECT, functools.partial(estimand, True)),
        Contestant(_OFF, PROJECT, functools.partial(estimand, False)),
    ],
    measures=serving.measures(c32="32 connections", c1="1 connection"),
    baseline=[_OFF],
    targets=[Target(_ON, [_OFF], at_least=0.97, measure="c1")],
    rounds=9,
    quick_rounds=3,
)
