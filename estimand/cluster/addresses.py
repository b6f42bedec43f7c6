"""Addresses of a cluster: "host:port", the ports that are free here, and whether one answers."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping

from estimand.cluster.description import Task
from estimand.core.errors import ConfigError
from estimand.core.tf_config import TaskType

Cluster = Mapping[str, Mapping[int, str]]

LOOPBACK = "127.0.0.1"


def addresses_of(cluster: Cluster) -> dict[Task, str]:
    """Every process that has to be reached; an evaluator listed in the cluster has not.

    >>> addresses_of({"worker": {0: "a:1", 1: "b:1"}, "evaluator": {0: "c:1"}})
    {Task(role='worker', index=0): 'a:1', Task(role='worker', index=1): 'b:1'}
    """
    addresses: dict[Task, str] = {}
    owners: dict[str, Task] = {}
    for role, tasks in cluster.items():
        if role == TaskType.EVALUATOR:
            continue
        for index, address in tasks.items():
            task = Task(role, index)
            split_address(address, task)
            if address in owners:
                raise ConfigError(
                    f"TF_CONFIG gives {owners[address]} and {task} the same address {address!r}: "
                    "each process needs its own."
                )
            owners[address], addresses[task] = task, address
    return addresses


def split_address(address: str, task: Task | None = None) -> tuple[str, int]:
    """Host and port.

    >>> split_address("10.0.0.7:2222"), split_address("[::1]:80"), split_address("grpc://a:1")
    (('10.0.0.7', 2222), ('::1', 80), ('a', 1))
    """
    host, colon, port = address.removeprefix("grpc://").rpartition(":")
    if not (host and colon and port.isdecimal() and 0 < int(port) < 65536):
        owner = "" if task is None else f" of {task} in TF_CONFIG"
        raise ConfigError(
            f'The address{owner} must be "host:port" with a port from 1 to 65535, '
            f"given: {address!r}."
        )
    return host.strip("[]"), int(port)


def free_ports(count: int) -> list[int]:
    """So many different ports of this machine that nobody listens on.

    >>> len(set(free_ports(3)))
    3
    """
    with contextlib.ExitStack() as stack:
        # All at once: a port that was given back may be handed out again.
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for bound in sockets:
            bound.bind((LOOPBACK, 0))
        return [bound.getsockname()[1] for bound in sockets]


def answers(address: str, timeout: float = 2.0) -> bool:
    """Whether somebody accepts connections there."""
    try:
        socket.create_connection(split_address(address), timeout).close()
    except OSError:
        return False
    return True


# How every HTTP/2 connection begins, and so every one to a server of TensorFlow: the client's
# first words and its empty settings, then the settings of the server.
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_SETTINGS = bytes([4, 0, 0, 0, 0, 0])
# What a process says that waits for the others before it starts its server.
_WAITING = b"estimand\n"


def takes_part(address: str, timeout: float = 2.0) -> bool:
    """Whether TensorFlow is there, or a process that waits for its cluster.

    A port that accepts connections may be another program's; TensorFlow would wait for it for ever.
    """
    try:
        with socket.create_connection(split_address(address), timeout) as connection:
            connection.settimeout(timeout)
            connection.sendall(_HELLO)
            answer = b""
            while len(answer) < len(_WAITING) and (more := connection.recv(len(_WAITING))):
                answer += more
    except OSError:
        return False
    return answer[: len(_WAITING)] == _WAITING or answer[3:9] == _SETTINGS


def say_waiting(listener: socket.socket) -> None:
    """Answer those who ask that this process waits; until `listener` is shut down.

    TensorFlow itself may call, from a process that waits no more: it is kept on the line, and calls
    again when that is cut.
    """
    with contextlib.ExitStack() as kept:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with contextlib.suppress(OSError):
                connection.settimeout(1.0)
                said = connection.recv(len(_HELLO))
                if said and said != _HELLO:
                    kept.enter_context(connection)
                    continue
                connection.sendall(_WAITING if said else b"")
                connection.recv(1)  # the other side hangs up, so that the port is not kept
            connection.close()
