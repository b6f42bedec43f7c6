"""Several cores for one server: threads of one process against processes (`--num_workers`).

    python bench/serving_cores.py --rounds 5 --seconds 3

Servers of one, of two and so on up to as many processes as there are processors take turns under
the load of wrk, with 32 connections for each model: a small one (32, 128, 64, 10), a large one
(32, 2048, 2048, 10), and both at the same time. Requests per second, processor time of the server
for a request, and the 99th percentile; medians of the rounds.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from workloads import serving

_MODELS = {"small": serving.SMALL, "large": serving.LARGE}
_MIXES = {"small": ("small",), "large": ("large",), "both": ("small", "large")}
_CONNECTIONS = 32


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3.0)
    options = parser.parse_args()
    counts = range(1, (os.cpu_count() or 1) + 1)
    servers = {count: _serve(count) for count in counts}
    seen: dict[tuple[str, str, int], list[tuple[float, float, float]]] = {}
    for _ in range(options.rounds):
        for mix, names in _MIXES.items():
            for count, server in servers.items():
                for name, found in _load(server, names, options.seconds).items():
                    seen.setdefault((mix, name, count), []).append(found)
    print("load    model   processes   requests/s   µs of processors   99th percentile, ms")
    for (mix, name, count), found in seen.items():
        rate, cpu, p99 = (statistics.median(one) for one in zip(*found, strict=True))
        print(f"{mix:7s} {name:7s} {count:9d}   {rate:10,.0f}   {cpu:16,.0f}   {p99:19.1f}")


def _serve(processes: int) -> serving.Served:
    config = Path(tempfile.gettempdir()) / "serving_cores.config"
    models = "".join(
        f'config {{ name: "{name}" base_path: "{serving.base_path(sizes)}" '
        'model_platform: "tensorflow" }\n'
        for name, sizes in _MODELS.items()
    )
    config.write_text(f"model_config_list {{\n{models}}}\n")
    port = serving.free_port()
    command = [sys.executable, "-m", "estimand", "serve", f"--model_config_file={config}"]
    flags = ["--port=0", f"--rest_api_port={port}", f"--num_workers={processes}"]
    server = serving.Served([*command, *flags], port)
    for name, sizes in _MODELS.items():
        server.wait_until(lambda name=name: serving.ask_rest(port, name), serving.expected(sizes))
    return server


def _load(
    server: serving.Served, names: tuple[str, ...], seconds: float
) -> dict[str, tuple[float, float, float]]:
    before = server.cpu_seconds()
    with ThreadPoolExecutor() as pool:
        asked = {
            name: pool.submit(serving.wrk, server.port, _CONNECTIONS, seconds, [name])
            for name in names
        }
        loads = {name: one.result() for name, one in asked.items()}
    spent = server.cpu_seconds() - before
    cpu = 1e6 * spent / max(1, sum(load.requests for load in loads.values()))
    return {name: (load.rate, cpu, load.p99) for name, load in loads.items()}


if __name__ == "__main__":
    main()
