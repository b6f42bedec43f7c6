from __future__ import annotations

import os
import socket

import pytest

from estimand.cluster.addresses import LOOPBACK
from estimand.cluster.dead_workers import SilenceWatch, hang_up
from estimand.cluster.description import Task


def test_only_a_worker_that_stays_silent_is_hung_up_on(caplog) -> None:
    now, up, hung_up = 0.0, {"a:1": True, "b:1": True}, []
    workers = {Task("worker", 0): "a:1", Task("worker", 1): "b:1"}

    def note(address: str) -> int:
        hung_up.append((now, address))
        return 1

    watch = SilenceWatch(workers, clock=lambda: now, reachable=up.__getitem__, hang_up=note)
    for second, change in ((0, {}), (5, {"a:1": False, "b:1": False}), (20, {"a:1": True})):
        now = second
        up.update(change)
        watch.look()
    assert hung_up == []
    now = 25
    watch.look()
    assert hung_up == [(25, "b:1")]
    assert "worker 1 at b:1 has not answered for 20 s" in caplog.text


def test_hanging_up_closes_the_connections_to_one_address() -> None:
    with socket.create_server((LOOPBACK, 0)) as one, socket.create_server((LOOPBACK, 0)) as other:
        places = [server.getsockname() for server in (one, other)]
        with (
            socket.create_connection(places[0]) as cut,
            socket.create_connection(places[1]) as kept,
        ):
            assert hang_up(f"{LOOPBACK}:{places[0][1]}") == 1
            assert cut.recv(1) == b""
            kept.settimeout(0.01)
            with pytest.raises(TimeoutError):  # nobody says anything, but it is open
                kept.recv(1)
            assert hang_up(f"{LOOPBACK}:1") == 0


def test_hanging_up_leaves_no_copies_of_files_open() -> None:
    reading, writing = os.pipe()
    with socket.create_server((LOOPBACK, 0)) as server, open(os.devnull) as file:
        address = f"{LOOPBACK}:{server.getsockname()[1]}"
        with socket.create_connection(server.getsockname()), socket.socket() as unconnected:
            before = os.listdir("/dev/fd")
            for expected in (1, 1, 0):
                assert hang_up(address if expected else f"{LOOPBACK}:1") == expected
            assert len(os.listdir("/dev/fd")) == len(before)
            assert unconnected.fileno() >= 0 and file.fileno() >= 0
    os.close(reading)
    os.close(writing)
