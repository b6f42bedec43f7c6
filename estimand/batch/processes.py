"""The shards of a job, by processes on this machine."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import json
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from estimand.batch.plan import Job
from estimand.core.errors import BatchError
from estimand.inputs.files import usable_cores

_PACKAGES = str(pathlib.Path(__file__).resolve().parents[2])  # where this package lies
ATTEMPTS = 3  # at a shard during which processes die
_STARTS = 5


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What became of a shard: its counts, or why it has none."""

    number: int
    rows: int = 0
    errors: int = 0
    failure: str | None = None


def run(job: Job, numbers: Sequence[int], workers: int) -> Iterator[Outcome]:
    """Work on shards, and give what became of each as it is known."""
    team = _Team(job, numbers, workers)
    try:
        yield from team.outcomes(len(numbers))
    finally:
        team.end()


class _Team:
    """A thread for each process, which hands it one shard after the other."""

    def __init__(self, job: Job, numbers: Sequence[int], workers: int) -> None:
        self._job = job
        self._left = collections.deque(numbers)
        self._deaths: collections.Counter[int] = collections.Counter()
        self._found: queue.SimpleQueue[Outcome | Exception] = queue.SimpleQueue()
        self._processes: list[_Process] = []
        self._ended = False
        self._lock = threading.Lock()
        count = min(workers, len(numbers))
        for _ in range(count):
            threading.Thread(target=self._work, args=(count,), daemon=True).start()

    def outcomes(self, count: int) -> Iterator[Outcome]:
        for _ in range(count):
            outcome = self._found.get()
            if isinstance(outcome, Exception):
                raise outcome
            yield outcome

    def end(self) -> None:
        with self._lock:
            self._ended = True
            for process in self._processes:
                process.end()

    def _work(self, count: int) -> None:
        process = None
        try:
            while (number := self._next()) is not None:
                process = process or self._start(count)
                answer = process.ask(number)
                if answer is None:  # it died
                    self._note_death(number, process.last_words())
                    process.end()
                    process = None
                else:
                    self._found.put(Outcome(number, **answer))
        except Exception as error:
            self._found.put(error)

    def _next(self) -> int | None:
        with self._lock:
            return self._left.popleft() if self._left and not self._ended else None

    def _start(self, count: int) -> _Process:
        """A process that has begun; one that is killed before gets a successor."""
        for _ in range(_STARTS):
            with self._lock:
                if self._ended:
                    raise BatchError("The job has ended.")
                process = _Process(self._job, count)
                self._processes.append(process)
            if process.is_ready():
                return process
            last_words = process.last_words()
            process.end()
        raise BatchError(f"Processes do not come to begin{last_words}")

    def _note_death(self, number: int, last_words: str) -> None:
        with self._lock:
            self._deaths[number] += 1
            if self._deaths[number] < ATTEMPTS:
                self._left.appendleft(number)
                return
        what = f"{ATTEMPTS} processes died of it{last_words}"
        self._found.put(Outcome(number, failure=what))


class _Process:
    def __init__(self, job: Job, count: int) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - see end
        command = [
            sys.executable,
            "-m",
            "estimand.core.interpreter.postponed",
            "estimand.batch.worker",
        ]
        self._process = subprocess.Popen(
            [*command, job.output, json.dumps(job.task.for_workers())],
            env=_environment(count),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def is_ready(self) -> bool:
        """Waits for it; False if it was killed."""
        if self._answer() is not None:
            return True
        if self._process.wait() < 0:
            return False
        raise BatchError(f"A process could not begin{self.last_words()}")

    def ask(self, number: int) -> dict[str, Any] | None:
        """What it answers; None if it dies."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(f"{number}\n")
            self._process.stdin.flush()
        except OSError:
            return None
        return self._answer()

    def _answer(self) -> dict[str, Any] | None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        return json.loads(line) if line.endswith("\n") else None

    def last_words(self) -> str:
        code = self._process.wait()
        self._errors.seek(0)
        lines = self._errors.read().decode(errors="replace").strip().splitlines()
        shown = "\n".join(lines[-20:])
        return f" (exit code {code})" + (f":\n{shown}" if shown else ".")

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            with contextlib.suppress(OSError):
                stream.close()  # type: ignore[union-attr]


def _environment(count: int) -> dict[str, str]:
    """Each has its share of the cores: otherwise they hinder each other."""
    threads = str(max(1, usable_cores() // count))
    paths = [_PACKAGES, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "TF_NUM_INTRAOP_THREADS": threads,
        "TF_NUM_INTEROP_THREADS": threads,
        **os.environ,
        "PYTHONPATH": os.pathsep.join(paths),
    }
