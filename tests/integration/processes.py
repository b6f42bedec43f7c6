"""Functions in processes of their own, forked from one that has imported TensorFlow."""

from __future__ import annotations

import base64
import contextlib
import os
import pickle
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests import forked

PATIENCE = 60.0
_PROGRAM = """
import base64, pickle, sys
function, args, kwargs = pickle.loads(base64.b64decode(sys.argv[1]))
function(*args, **kwargs)
"""


class Child:
    """A function running in a process of its own, with what it prints kept in a file."""

    def __init__(self, function: Callable[..., None], *args: Any, log: Path, **kwargs: Any) -> None:
        self.log = log
        call = base64.b64encode(pickle.dumps((function, args, kwargs))).decode()
        with log.open("ab") as file:
            self._program = forked.Program(
                ["-c", _PROGRAM, call],
                cwd=forked.REPOSITORY,
                stdout=file,
                stderr=subprocess.STDOUT,
            )

    @property
    def pid(self) -> int:
        return self._program.pid

    @property
    def running(self) -> bool:
        return self._program.poll() is None

    @property
    def printed(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Its exit code; negative if a signal ended it."""
        try:
            return self._program.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"still running after {PATIENCE} s:\n{self.printed}") from None

    def kill(self) -> None:
        self._program.kill()
        self._program.wait(PATIENCE)


@contextlib.contextmanager
def child(function: Callable[..., None], *args: Any, log: Path, **kwargs: Any) -> Iterator[Child]:
    """A child that does not outlive the block."""
    started = Child(function, *args, log=log, **kwargs)
    try:
        yield started
    finally:
        started.kill()


def run(function: Callable[..., None], *args: Any, log: Path, **kwargs: Any) -> Child:
    """A child that runs to its end, which must be a good one."""
    with child(function, *args, log=log, **kwargs) as started:
        code = started.wait()
    assert code == 0, f"exit code {code}:\n{started.printed}"
    return started


def wait_until(condition: Callable[[], Any], watched: Child, seconds: float = PATIENCE) -> None:
    """Wait for something a child does; it must not end before."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert watched.running, f"ended too early:\n{watched.printed}"
        assert time.monotonic() < deadline, f"nothing happened:\n{watched.printed}"
        time.sleep(0.002)
