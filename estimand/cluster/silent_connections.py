"""Connections of a cluster that end when the other side has fallen silent.

A process that is killed closes its connections. One whose machine or network is gone does not, and
the system would go on sending for a quarter of an hour. It is asked here to give up sooner. It has
to be the system who does it: a thread of Python that waits for a value on a lost server keeps all
others from running meanwhile, also those that could hang up.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Callable, Iterator, Mapping

from estimand.cluster.addresses import Cluster, addresses_of, split_address
from estimand.cluster.description import Task

_SECONDS_OF_SILENCE = 20
_SECONDS_BETWEEN_PROBES = 5
_SECONDS_BETWEEN_LOOKS = 2.0


@contextlib.contextmanager
def silent_ones_ended(
    cluster: Cluster, me: Task, moved: Callable[[], Mapping[int, str]] = dict
) -> Iterator[None]:
    """Inside, all connections of this process to others of the cluster, and of others to it.

    `moved` has the addresses that are no longer those of the cluster.
    """
    ports = {task: split_address(address)[1] for task, address in addresses_of(cluster).items()}
    own, over = ports.pop(me, None), threading.Event()

    def run() -> None:
        while True:
            others = {*ports.values(), *(split_address(a)[1] for a in moved().values())}
            for number in open_files():
                _end_when_silent(number, others, own)
            if over.wait(_SECONDS_BETWEEN_LOOKS):
                return

    threading.Thread(target=run, name="estimand-connections", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def _end_when_silent(number: int, ports: set[int], own: int | None) -> None:
    with contextlib.suppress(OSError, ValueError), connection(number) as opened:
        if opened.family not in (socket.AF_INET, socket.AF_INET6):
            return
        if opened.getpeername()[1] not in ports and opened.getsockname()[1] != own:
            return
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # By Linux' names. The last one is also for what was sent and never received.
        for option, value in (
            ("TCP_KEEPIDLE", _SECONDS_BETWEEN_PROBES),
            ("TCP_KEEPINTVL", _SECONDS_BETWEEN_PROBES),
            ("TCP_USER_TIMEOUT", 1000 * _SECONDS_OF_SILENCE),
        ):
            if hasattr(socket, option):
                opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def open_files() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/dev/fd")]
    except OSError:
        return []


def connection(number: int) -> socket.socket:
    """A socket of our own: it stays this connection, whatever becomes of the number."""
    copy = os.dup(number)
    try:
        return socket.socket(fileno=copy)
    except BaseException:  # it is no socket, and nobody has taken charge of the copy
        os.close(copy)
        raise
