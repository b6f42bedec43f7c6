from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import estimand as est
from estimand.cluster.addresses import LOOPBACK, answers, free_ports, say_waiting, takes_part
from estimand.cluster.description import Task
from estimand.cluster.waiting import TIMEOUT_VARIABLE, timeout_of, wait_for_peers
from estimand.core.errors import ClusterError, ConfigError

CLUSTER = {
    "chief": {0: "10.0.0.5:2222"},
    "worker": {0: "10.0.0.6:2222", 1: "10.0.0.7:2222"},
    "evaluator": {0: "10.0.0.8:2222"},
}


class Network:
    """Addresses that begin to answer at a certain second, and a clock that sleeping moves."""

    def __init__(self, **up_from: float) -> None:
        self.now = 0.0
        self.asked: list[str] = []
        self.strangers: list[str] = []
        self._up_from = {f"10.0.0.{name[1:]}:2222": second for name, second in up_from.items()}

    def wait(self, timeout: float, **more: Any) -> dict[Task, str]:
        return wait_for_peers(
            CLUSTER,
            timeout,
            clock=lambda: self.now,
            sleep=self._sleep,
            reachable=self._reachable,
            somebody_is_at=lambda address: address in self.strangers,
            **more,
        )

    def _sleep(self, seconds: float) -> None:
        self.now += seconds

    def _reachable(self, address: str) -> bool:
        self.asked.append(address)
        return self.now >= self._up_from.get(address, float("inf"))


def test_returns_when_all_others_have_come() -> None:
    network = Network(_6=3, _7=7)
    network.wait(60, me=Task("chief", 0))
    assert 7 <= network.now < 8
    assert "10.0.0.5:2222" not in network.asked


def test_those_beyond_the_least_number_of_workers_may_come_later() -> None:
    network = Network(_6=3, _7=70)
    wanted = {"me": Task("chief", 0), "min_workers": 1}
    assert network.wait(60, **wanted) == {Task("worker", 1): "10.0.0.7:2222"}
    assert 3 <= network.now < 4


def test_who_was_reached_once_is_not_asked_again() -> None:
    network = Network(_6=0, _7=7)
    network.wait(60, me=Task("chief", 0))
    assert network.asked.count("10.0.0.6:2222") == 1


def test_an_evaluator_is_not_waited_for() -> None:
    network = Network(_5=0, _6=0, _7=0)
    network.wait(60)
    assert "10.0.0.8:2222" not in network.asked


def test_time_out_names_who_never_came() -> None:
    with pytest.raises(ClusterError) as caught:
        Network(_6=0).wait(300, me=Task("chief", 0))
    assert str(caught.value) == (
        "worker 1 at 10.0.0.7:2222 did not answer within 300 s. Has the program been started "
        "there, with the same TF_CONFIG, and can this machine reach it? To wait longer, set "
        "RunConfig(session_creation_timeout_secs=...) or ESTIMAND_CLUSTER_TIMEOUT_SECS."
    )


def test_time_out_tells_of_another_program_at_the_port() -> None:
    network = Network(_6=0)
    network.strangers.append("10.0.0.7:2222")
    with pytest.raises(ClusterError, match=r"Something listens at 10\.0\.0\.7:2222 that is not"):
        network.wait(300, me=Task("chief", 0))


def test_missing_ones_are_told_while_waiting(caplog: Any) -> None:
    caplog.set_level("INFO", "tensorflow")
    with pytest.raises(ClusterError):
        Network(_6=45).wait(70, me=Task("chief", 0))
    assert [line.partition(" (")[0] for line in caplog.messages] == [
        "Still waiting for worker 0 at 10.0.0.6:2222, worker 1 at 10.0.0.7:2222",
        "Still waiting for worker 1 at 10.0.0.7:2222",
    ]


def test_processes_that_wait_for_each_other_all_go_on() -> None:
    ports = free_ports(3)
    cluster = {"worker": {i: f"{LOOPBACK}:{port}" for i, port in enumerate(ports)}}
    errors: list[BaseException] = []
    all_went_on = threading.Barrier(len(ports), timeout=60)

    def run(index: int) -> None:
        time.sleep(0.2 * index)
        try:
            wait_for_peers(cluster, 60, me=Task("worker", index), listen=True)
            # As TensorFlow's server does next, at the same port.
            with listening(ports[index], speaks=True):
                all_went_on.wait()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors


def test_own_port_that_is_taken() -> None:
    [mine, other] = free_ports(2)
    cluster = {"worker": {0: f"{LOOPBACK}:{mine}", 1: f"{LOOPBACK}:{other}"}}
    with (
        listening(mine),
        pytest.raises(ClusterError, match=f"Port {mine} of worker 0 at .* in use"),
    ):
        wait_for_peers(cluster, 1, me=Task("worker", 0), listen=True)


def test_nobody_answers_at_a_free_port() -> None:
    [port] = free_ports(1)
    assert not answers(f"{LOOPBACK}:{port}")
    with listening(port):
        assert answers(f"{LOOPBACK}:{port}")
        assert not takes_part(f"{LOOPBACK}:{port}", timeout=0.05)  # it says nothing


@pytest.mark.parametrize(("variable", "expected"), [(None, 40), ("", 40), ("7", 7), (" 2.5 ", 2.5)])
def test_time_out_of_environment_or_config(
    monkeypatch: Any, variable: str | None, expected: float
) -> None:
    if variable is not None:
        monkeypatch.setenv(TIMEOUT_VARIABLE, variable)
    assert timeout_of(est.RunConfig(session_creation_timeout_secs=40)) == expected


@pytest.mark.parametrize("text", ["soon", "0", "-1", "nan"])
def test_time_out_that_is_none(monkeypatch: Any, text: str) -> None:
    monkeypatch.setenv(TIMEOUT_VARIABLE, text)
    with pytest.raises(ConfigError, match=f"seconds > 0, given: '{text}'"):
        timeout_of(est.RunConfig())


@contextlib.contextmanager
def listening(port: int, *, speaks: bool = False) -> Iterator[None]:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((LOOPBACK, port))
        listener.listen()
        if speaks:
            threading.Thread(target=say_waiting, args=(listener,), daemon=True).start()
        yield
        if speaks:
            listener.shutdown(socket.SHUT_RDWR)
