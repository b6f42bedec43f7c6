"""Hanging up on a worker that has fallen silent.

A process that is killed closes its connections, and whoever waits for it learns so at once; those
to a machine that is gone are ended by the system (`silent_connections.py`). One that has stopped in
its tracks still has a system that answers. So the chief calls everybody now and then, and closes
its connections to a worker that says nothing: what it computed is then done again by another one.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from estimand.cluster.addresses import split_address, takes_part
from estimand.cluster.description import Task
from estimand.cluster.silent_connections import connection, open_files
from estimand.core.tf_config import TaskType

_SECONDS_BETWEEN_CALLS = 5.0
_SECONDS_OF_SILENCE = 20.0

_log = logging.getLogger("tensorflow")


@contextlib.contextmanager
def dead_workers_noticed(addresses: Callable[[], Mapping[int, str]]) -> Iterator[None]:
    """Watch workers, which are at these addresses now, from another thread."""
    over = threading.Event()

    def run() -> None:
        watch = SilenceWatch({})
        while not over.wait(_SECONDS_BETWEEN_CALLS):
            watch.workers = {Task(TaskType.WORKER, n): a for n, a in addresses().items()}
            watch.look()

    thread = threading.Thread(target=run, name="estimand-silence", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()


@dataclass
class SilenceWatch:
    """Who has not answered, and since when."""

    workers: dict[Task, str]
    clock: Callable[[], float] = time.monotonic
    reachable: Callable[[str], bool] = takes_part
    hang_up: Callable[[str], int] = field(default_factory=lambda: hang_up)
    _silent_since: dict[Task, float] = field(default_factory=dict)

    def look(self) -> None:
        for task, address in self.workers.items():
            if self.reachable(address):
                self._silent_since.pop(task, None)
                continue
            since = self._silent_since.setdefault(task, self.clock())
            if self.clock() - since >= _SECONDS_OF_SILENCE and self.hang_up(address):
                _log.warning(
                    "%s at %s has not answered for %.0f s: others do its work until it is back.",
                    task,
                    address,
                    self.clock() - since,
                )


def hang_up(address: str) -> int:
    """Shut down the connections of this process to `address`; how many there were."""
    host, port = split_address(address)
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return 0
    wanted = {(place[0], place[1]) for *_, place in addresses}
    return sum(_shut_down(fd, wanted) for fd in open_files())


def _shut_down(number: int, wanted: set[Any]) -> bool:
    try:
        with connection(number) as found:
            host, port, *_ = found.getpeername()
            if (host.removeprefix("::ffff:"), port) not in wanted:
                return False
            found.shutdown(socket.SHUT_RDWR)
    except (OSError, ValueError):  # another kind of file, or of socket
        return False
    return True
