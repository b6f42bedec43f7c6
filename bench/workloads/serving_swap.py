"""New versions under full load: nothing fails, and latencies stay near the usual ones."""

from __future__ import annotations

import functools
import os
import shutil
import threading
from pathlib import Path

from environments import PROJECT
from turns import Turns
from workload import Contestant, Measure, Target, Workload

from workloads import serving

_USUAL, _SWAPPING = "one version", "a new version in each turn"


def _publish(base: Path, number: int) -> None:
    unfinished = base / f"unfinished-{number}"
    shutil.copytree(base / "1", unfinished)
    os.rename(unfinished, base / str(number))


def estimand(swapping: bool, turns: Turns) -> None:
    serving.tools_are_there("wrk")
    base = Path(f"versions-{swapping}").absolute()  # its own: it grows
    shutil.copytree(serving.base_path(), base)
    port = serving.free_port()
    server = serving.Served(
        serving.estimand_command(base, "--port=0", f"--rest_api_port={port}"), port
    )
    server.wait_until(lambda: serving.ask_rest(port), serving.expected(serving.SMALL))
    newest = 1

    def load(seconds: float) -> serving.Load:
        nonlocal newest
        newest += 1
        timer = threading.Timer(0.3, _publish, (base, newest))
        if swapping:
            timer.start()
        seen = serving.wrk(port, 32, max(seconds, 3.0))  # the server looks every second
        if swapping:
            timer.join()
            serving.check_version(port, newest)
        return seen

    serving.take_turns(turns, server, {"c32": load})


WORKLOAD = Workload(
    title="A new version under full load, REST predict of one row, small network",
    contestants=[
        Contestant(_USUAL, PROJECT, functools.partial(estimand, False)),
        Contestant(_SWAPPING, PROJECT, functools.partial(estimand, True)),
    ],
    measures=[
        *(m for m in serving.measures(c32="32 connections") if not m.key.endswith("_p99")),
        Measure("c32_p99", "32 connections: 99th percentile", "ms", "share"),
        Measure("c32_good", "32 connections: answered", "%"),
    ],
    baseline=[_USUAL],
    targets=[
        Target(_SWAPPING, [_USUAL], at_most=3, measure="c32_p99"),
        Target(_SWAPPING, [_USUAL], at_least=1, measure="c32_good"),
    ],
    rounds=9,
    quick_rounds=3,
)
