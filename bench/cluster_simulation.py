"""How many steps per second 1 to 1,000 workers do with parameter servers, by simulation.

    python bench/cluster_simulation.py                      # tables, from the costs below
    python bench/cluster_simulation.py --check 1,2,3,4      # beside real runs on this machine

Each worker repeats: compute, ask each server for its rows, wait, send each server its gradients.
A server has `cores` that answer one call at a time, in the order in which they come, and one line
to the network. Costs are those of `bench/workloads/capacity.py`: processor time for a step of a
worker and of a server, and the bytes of a step. With --check all share the processors of this
machine, as they do in the real runs that are made beside it.
"""

from __future__ import annotations

import argparse
import heapq
import itertools
import os
import random
import subprocess
import sys
from collections.abc import Generator
from dataclasses import dataclass, field
from pathlib import Path

_MESSAGES = 2  # of a step, that a server works for: the rows, then the gradients


@dataclass(frozen=True)
class Costs:
    """Of one step; seconds of one processor, and bytes in both directions together."""

    worker: float
    server: float
    bytes: float
    parallel: int = 2  # how many processors a worker keeps busy in a step


@dataclass(frozen=True)
class Machines:
    workers: int
    servers: int
    cores: int = 4  # of each server, that are kept busy
    bandwidth: float = 1.2e9  # bytes per second, of each machine
    round_trip: float = 2e-4
    shared: int = 0  # how many processors all have together; 0: machines of their own


@dataclass
class Resource:
    """`size` that serve one at a time, in order of arrival; for how long it has been busy."""

    size: int
    busy: float = 0.0
    _free: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._free = [0.0] * self.size

    def serve(self, now: float, seconds: float) -> float:
        """When it is done."""
        began = max(now, heapq.heappop(self._free))
        heapq.heappush(self._free, began + seconds)
        self.busy += seconds
        return began + seconds


def simulate(costs: Costs, machines: Machines, steps: int, seed: int = 1) -> dict[str, float]:
    """Steps per second, and how busy the servers' processors and lines were."""
    chance = random.Random(seed)
    everybody = Resource(machines.shared) if machines.shared else None
    servers = [everybody or Resource(machines.cores) for _ in range(machines.servers)]
    lines = [Resource(1) for _ in range(machines.servers)]
    wire = costs.bytes / machines.servers / _MESSAGES / machines.bandwidth
    work = costs.server / machines.servers / _MESSAGES

    def ask_all(now: float) -> float:
        """One message to each server and back; the slowest answer counts."""
        there = now + machines.round_trip / 2
        ends = []
        for server, line in zip(servers, lines, strict=True):
            ends.append(server.serve(line.serve(there, wire), work) + machines.round_trip / 2)
        return max(ends)

    def compute(now: float) -> float:
        seconds = costs.worker * chance.uniform(0.9, 1.1)
        if everybody is None:
            return now + seconds / costs.parallel
        parts = [seconds / costs.parallel] * costs.parallel
        return max(everybody.serve(now, part) for part in parts)

    def worker(now: float) -> Generator[float, float, None]:
        while True:
            now = yield ask_all(now)
            now = yield compute(now)
            now = yield ask_all(now)

    done, now, turn = 0, 0.0, itertools.count()
    queue: list[tuple[float, int, Generator[float, float, None], int]] = []
    for _ in range(machines.workers):
        begun = worker(chance.uniform(0, costs.worker))
        heapq.heappush(queue, (next(begun), next(turn), begun, 1))
    while done < steps:
        now, _, one, phase = heapq.heappop(queue)
        done += phase == 3
        heapq.heappush(queue, (one.send(now), next(turn), one, phase % 3 + 1))
    return {
        "steps/s": done / now,
        "processors": servers[0].busy / now / servers[0].size,
        "network": lines[0].busy / now,
    }


# 26 embeddings of 16 and of 256, as docs/capacity.md has them.
_SIZES = ((1, 1), (10, 1), (10, 2), (100, 2), (100, 16), (1000, 16), (1000, 160))
_MODELS = {16: Costs(17e-3, 7e-3, 1.1e6), 256: Costs(124e-3, 33e-3, 16e6)}


def table(costs: Costs) -> None:
    print("workers  servers   steps/s   of each, against one   servers' processors   their network")
    one = simulate(costs, Machines(1, 1), 200)["steps/s"]
    for workers, servers in _SIZES:
        seen = simulate(costs, Machines(workers, servers), max(2_000, 20 * workers))
        print(
            f"{workers:7d}  {servers:7d}  {seen['steps/s']:8,.0f}   "
            f"{seen['steps/s'] / workers / one:20.0%}   {seen['processors']:19.0%}   "
            f"{seen['network']:13.0%}"
        )


def check(counts: list[int], dimension: int) -> None:
    """The simulation of one machine against it."""
    print("workers   measured   simulated   ms/step of workers, server, chief")
    for workers in counts:
        command = [sys.executable, __file__, "--real", str(workers), "--dimension", str(dimension)]
        said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
        rate, worker, server, chief = map(float, said.splitlines()[-1].split())
        costs = Costs((worker + chief) / 1e3, server / 1e3, 0.0)
        here = Machines(workers, 1, round_trip=0.0, shared=os.cpu_count() or 1)
        found = simulate(costs, here, 2_000)["steps/s"]
        spent = f"{worker:.1f}, {server:.1f}, {chief:.1f}"
        print(f"{workers:7d}   {rate:8.1f}   {found:9.1f}   {spent}")


def real(workers: int, dimension: int) -> None:
    sys.path[:0] = [str(Path(__file__).parent)]
    from workloads import capacity

    class Told:
        quick = True

        def report(self, rate: float, worker: float, ps: float, chief: float) -> None:
            print(rate, worker, ps, chief, flush=True)

    capacity.run(Told(), workers, dimension)  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", help="so many workers in real runs: 1,2,3,4")
    parser.add_argument("--dimension", type=int, default=64, choices=(8, 64, 256))
    parser.add_argument("--real", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.real:
        real(options.real, options.dimension)
    elif options.check:
        check([int(one) for one in options.check.split(",")], options.dimension)
    else:
        for dimension, costs in _MODELS.items():
            print(f"\nembeddings of {dimension}")
            table(costs)


if __name__ == "__main__":
    main()
