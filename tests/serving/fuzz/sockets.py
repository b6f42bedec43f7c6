"""Attackers of all kinds at once against a server, and bystanders who check what they get."""

from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from google.protobuf import text_format
from tensorflow_serving.apis import model_management_pb2

from tests.serving import fuzzing
from tests.serving.attacks.watching import GROWTH, WAIT, Bystanders, resident_bytes
from tests.serving.fuzz.world import write_models
from tests.serving.running import Server, config_text

REPOSITORY = Path(__file__).resolve().parents[3]
_CASES = 3000
_BAD = {"NO ANSWER", "ERROR OF OURS", "500"}
_ENDS = 60.0  # seconds for an attacker to end


class TimedBystanders(Bystanders):
    """Who keep how long each answer took."""

    def __init__(self, server: Server, model: str = "two_inputs") -> None:
        super().__init__(server, model, ())
        self.seconds: list[float] = []

    def _note(self, front: str, seconds: float, problem: str) -> None:
        self.seconds.append(seconds)
        super()._note(front, seconds, problem)

    def take(self) -> list[float]:
        """Those since the last time, sorted."""
        taken, self.seconds = self.seconds, []
        return sorted(taken)


def part_of(values: Sequence[float], part: float) -> float:
    """
    >>> part_of([1.0, 2.0, 3.0, 4.0], 0.5)
    3.0
    """
    return values[min(len(values) - 1, int(part * len(values)))] if values else 0.0


def made_cases(seed: int) -> dict[str, list[Any]]:
    """Requests of some kinds that parse and mean nothing, or nearly so."""
    random_ = random.Random(seed)
    return {
        "grpc": [fuzzing.grpc_case(random_) for _ in range(_CASES)],
        "json": [fuzzing.rest_case(random_) for _ in range(_CASES)],
        "http1": [fuzzing.http_case(random_) for _ in range(_CASES)],
    }


class Attack:
    """A process for each kind; their figures afterwards."""

    def __init__(
        self,
        server: Server,
        kinds: Sequence[str],
        seconds: float,
        out: Path,
        *,
        served: dict[str, str],
        seed: int = 0,
        per_second: float = float("inf"),
    ) -> None:
        reload = out / "reload"
        request = model_management_pb2.ReloadConfigRequest()
        text_format.Parse(config_text(served), request.config)
        reload.write_bytes(request.SerializeToString())
        cases = out / "cases"
        cases.write_bytes(pickle.dumps(made_cases(seed)))
        self._out = out
        self._kinds = kinds
        where = [f"--port={server.port}", f"--rest_port={server.rest_port}", f"--seed={seed}"]
        more = [f"--seconds={seconds}", f"--reload={reload}", f"--per_second={per_second}"]
        more.append(f"--cases={cases}")
        command = [sys.executable, "-m", "tests.serving.fuzz.attackers"]
        self.processes = [
            subprocess.Popen(
                [*command, kind, *where, *more, f"--out={out / f'{kind}.attack'}"],
                cwd=REPOSITORY,
                env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            )
            for kind in kinds
        ]

    @property
    def goes_on(self) -> bool:
        return any(process.poll() is None for process in self.processes)

    def end(self) -> dict[str, dict[str, Any]]:
        """By kind: how many were made, what was told, how its process ended."""
        for process in self.processes:
            try:
                process.wait(_ENDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        found = {}
        for kind, process in zip(self._kinds, self.processes, strict=True):
            file = self._out / f"{kind}.attack"
            figures = json.loads(file.read_text()) if file.exists() else {"made": 0, "told": {}}
            found[kind] = {**figures, "code": process.returncode}
        return found


def attacked(kinds: Sequence[str], seconds: float, out: Path, seed: int) -> bool:
    """Whether server and bystanders were left alone. Prints the figures."""
    models = out / "models"
    write_models(models)
    served = {path.name: str(path) for path in sorted(models.iterdir())}
    config = out / "models.config"
    config.write_text(config_text(served))
    flags = ("--rest_api_max_body_bytes=1048576", "--max_request_bytes=1048576")
    server = Server(out / "server.log", f"--model_config_file={config}", *flags)
    try:
        server.wait_until_ready()
        return _attacked(server, kinds, seconds, out, seed, served)
    finally:
        server.stop()


def _attacked(
    server: Server,
    kinds: Sequence[str],
    seconds: float,
    out: Path,
    seed: int,
    served: dict[str, str],
) -> bool:
    print(f"Over sockets, {seconds:.0f} s, all kinds at once:", flush=True)
    others = TimedBystanders(server)
    others.start()
    attack = Attack(server, kinds, seconds, out, served=served, seed=seed)
    memory = [resident_bytes(server.process.pid)]
    while attack.goes_on and server.process.poll() is None:
        time.sleep(1.0)
        memory.append(resident_bytes(server.process.pid))
    figures = attack.end()
    is_alive = server.process.poll() is None
    if is_alive:
        others.served(3)
    others.stop()
    others.close()
    return _judged(figures, others, memory, is_alive)


def _judged(
    figures: dict[str, dict[str, Any]],
    others: TimedBystanders,
    memory: list[int],
    is_alive: bool,
) -> bool:
    for kind, one in figures.items():
        told = ", ".join(f"{what}: {count:,}" for what, count in sorted(one["told"].items()))
        print(f"  {kind:7}{one['made']:>10,} requests ({told})")
    times = others.take()
    half, most, longest = (1000 * part_of(times, part) for part in (0.5, 0.99, 1.0))
    early, late = memory[len(memory) // 3] >> 20, memory[-1] >> 20
    print(
        f"  together {sum(one['made'] for one in figures.values()):,} requests; the server "
        f"{'goes on' if is_alive else 'HAS ENDED'}, {early} MB at a third, {late} MB at the end\n"
        f"  bystanders: {len(times):,} answers, {len(others.problems)} wrong or missing; half "
        f"within {half:.1f} ms, 99 % within {most:.0f} ms, the longest {longest:.0f} ms "
        f"(bound: {WAIT * 1000:.0f} ms)",
        flush=True,
    )
    for problem in others.problems[:5]:
        print(f"    {problem}")
    return (
        is_alive
        and not others.problems
        and late - early <= GROWTH >> 20
        and all(one["made"] and one["code"] == 0 for one in figures.values())
        and not any(_BAD & one["told"].keys() for one in figures.values())
    )
