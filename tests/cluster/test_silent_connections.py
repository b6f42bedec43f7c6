from __future__ import annotations

import contextlib
import socket
import sys
import time

import pytest

from estimand.cluster.addresses import LOOPBACK
from estimand.cluster.description import Task
from estimand.cluster.silent_connections import silent_ones_ended


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other options")
def test_the_system_is_asked_to_give_up_silent_connections_of_the_cluster() -> None:
    with (
        socket.create_server((LOOPBACK, 0)) as peer,
        socket.create_server((LOOPBACK, 0)) as own,
        socket.create_server((LOOPBACK, 0)) as stranger,
        socket.create_connection(peer.getsockname()) as to_peer,
        socket.create_connection(own.getsockname()),
        socket.create_connection(stranger.getsockname()) as to_stranger,
        own.accept()[0] as from_peer,
        contextlib.closing(socket.socketpair()[0]),  # of no network, as an event loop has one
    ):
        ports = {"chief": own.getsockname()[1], "ps": peer.getsockname()[1]}
        cluster = {role: {0: f"{LOOPBACK}:{port}"} for role, port in ports.items()}
        with silent_ones_ended(cluster, Task("chief", 0)):
            wait_until_bounded(to_peer)
            wait_until_bounded(from_peer)
        assert bound_of(to_stranger) == 0


def wait_until_bounded(connection: socket.socket) -> None:
    deadline = time.monotonic() + 30
    while bound_of(connection) == 0:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


def bound_of(connection: socket.socket) -> int:
    return connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
