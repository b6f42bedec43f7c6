"""Child processes for tests: real ones, forked from a server that has imported TensorFlow once."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

PATIENCE = 60.0

_context = multiprocessing.get_context("forkserver")


def start_server() -> None:
    """Start what children are forked from. Imports only: TensorFlow's runtime stays untouched."""
    _context.set_forkserver_preload(["tensorflow", "estimand.estimator.estimator"])
    forkserver.ensure_running()


class Child:
    """A function running in a process of its own, with what it prints kept in a file."""

    def __init__(self, function: Callable[..., None], *args: Any, log: Path, **kwargs: Any) -> None:
        self.log = log
        self._process = _context.Process(target=_run, args=(function, args, kwargs, str(log)))
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.is_alive()

    @property
    def printed(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def send(self, number: int) -> None:
        os.kill(self.pid, number)

    def wait(self) -> int:
        """Its exit code; negative if a signal ended it."""
        self._process.join(PATIENCE)
        code = self._process.exitcode
        assert code is not None, f"still running after {PATIENCE} s:\n{self.printed}"
        return code

    def kill(self) -> None:
        if self.running:
            self.send(signal.SIGKILL)
        self._process.join(PATIENCE)


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


def _run(
    function: Callable[..., None], args: tuple[Any, ...], kwargs: dict[str, Any], log: str
) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    function(*args, **kwargs)
