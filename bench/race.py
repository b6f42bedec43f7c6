"""All contestants of a workload alive at the same time, each working when it is its turn.

A shared machine is never equally fast for two minutes. So no contestant runs for long: in each
round everybody has one short turn, in shuffled order, and only values of the same round are
compared.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import environments
from workload import Contestant, Workload

_PATIENCE_SECONDS = 300  # for one answer; after that the contestant is taken for stuck

Round = dict[str, dict[str, float]]  # contestant -> measure -> value


class Died(Exception):
    """A contestant's process ended before its time."""


class Runner:
    """The process of one contestant."""

    def __init__(self, workload_name: str, contestant: Contestant, scratch: str, quick: bool):
        self.name = contestant.name
        self._log = tempfile.TemporaryFile("w+", dir=scratch)  # noqa: SIM115 - closed in stop
        python = environments.interpreter(contestant.environment)
        command = [str(python), str(environments.BENCH / "child.py"), workload_name, self.name]
        variables = {**contestant.variables, "BENCH_STARTED": repr(time.time())}
        self._process = subprocess.Popen(
            [*command, *(["--quick"] if quick else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=scratch,
            env={**_surroundings(scratch), **variables},
        )

    def tell(self, command: str) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Died(self._last_words()) from None

    def hear(self, key: str) -> dict:
        """The next answer, which must have `key`."""
        assert self._process.stdout is not None
        watchdog = threading.Timer(_PATIENCE_SECONDS, self._process.kill)
        watchdog.start()
        try:
            line = self._process.stdout.readline()
        finally:
            watchdog.cancel()
        if not line:
            raise Died(self._last_words())
        answer = json.loads(line)
        if key not in answer:
            raise Died(f"expected {key!r}, got {answer}")
        return answer

    def turn(self) -> dict[str, float]:
        self.tell("go")
        values = self.hear("values")["values"]
        self.hear("ready")
        return values

    def stop(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._log.close()

    def _last_words(self) -> str:
        self._process.wait()
        self._log.seek(0)
        return self._log.read()[-1500:].strip() or f"exit code {self._process.returncode}"


_Named = TypeVar("_Named", Runner, Contestant)


def _surroundings(scratch: str) -> dict[str, str]:
    quiet = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "TMPDIR": scratch}
    # Without byte code on disk every process would compile its imports anew.
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, **quiet}


def run(
    name: str, workload: Workload, present: Sequence[Contestant], *, rounds: int, quick: bool
) -> list[Round]:
    """Race the contestants that are `present`; what each round brought."""
    order = random.Random(name)
    with tempfile.TemporaryDirectory(prefix="bench-") as scratch:
        race = _race_of_processes if workload.fresh_process else _race
        return race(name, present, scratch, rounds, quick, order)


def _race(
    name: str,
    present: Sequence[Contestant],
    scratch: str,
    rounds: int,
    quick: bool,
    order: random.Random,
) -> list[Round]:
    """All processes live from the first round to the last."""
    started = [Runner(name, c, scratch, quick) for c in present]
    runners = list(started)
    try:
        for command, answer in ((None, "loaded"), ("begin", "ready")):
            for runner in list(runners):
                with _dropping(runner, runners):
                    if command is not None:
                        runner.tell(command)
                    runner.hear(answer)
        return _rounds(rounds, order, runners, Runner.turn)
    finally:
        for runner in started:
            runner.stop()


def _race_of_processes(
    name: str,
    present: Sequence[Contestant],
    scratch: str,
    rounds: int,
    quick: bool,
    order: random.Random,
) -> list[Round]:
    """Each turn is a process of its own."""

    def turn(contestant: Contestant) -> dict[str, float]:
        os.sync()  # what the one before left to be written shall not burden this one
        runner = Runner(name, contestant, scratch, quick)
        try:
            return runner.hear("values")["values"]
        finally:
            runner.stop()
            _clear(scratch)

    return _rounds(rounds, order, list(present), turn)


def _rounds(
    rounds: int, order: random.Random, racing: list[_Named], turn: Callable[[_Named], dict]
) -> list[Round]:
    results: list[Round] = []
    for _ in range(rounds):
        results.append({})
        for one in order.sample(racing, len(racing)):
            with _dropping(one, racing):
                results[-1][one.name] = turn(one)
    return results


@contextlib.contextmanager
def _dropping(one: _Named, racing: list[_Named]) -> Iterator[None]:
    """Take a contestant that dies out of the race; the others go on."""
    try:
        yield
    except Died as error:
        print(f"  {one.name}: failed\n{error}\n", flush=True)
        racing.remove(one)


def _clear(scratch: str) -> None:
    """Remove what a contestant left on disk, so that many large checkpoints never add up."""
    for path in Path(scratch).iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
