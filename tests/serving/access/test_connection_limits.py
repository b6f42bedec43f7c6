"""One address cannot keep the others out."""

from __future__ import annotations

import pytest

from estimand.serving.access import connection_limits
from estimand.serving.access.connection_limits import ConnectionLimits


def test_who_goes_makes_room() -> None:
    some = ConnectionLimits(1)
    first = some.admit(("10.0.0.1", 1))
    assert some.admit(("10.0.0.1", 2)) is None
    some.release(None)  # who was not let in
    some.release(first)
    assert some.admit(("10.0.0.1", 3)) is not None
    assert some.admit("") is not None  # of a UNIX socket


def test_there_is_room_for_an_address_that_has_none() -> None:
    """However many come, the next ones have less, and never nothing."""
    some = ConnectionLimits(100)
    let_in = [
        sum(some.admit((f"10.0.0.{host}", port)) is not None for port in range(150))
        for host in range(5)
    ]
    assert let_in == [100, 50, 25, 13, 6]


@pytest.mark.parametrize("peer", [("127.0.0.1", 1), ("::1", 1, 0, 0), ""])
def test_there_is_room_for_clients_of_this_machine(peer: object) -> None:
    some = ConnectionLimits(20)
    while some.admit((f"10.0.0.{some._count}", 1)) is not None:
        pass
    assert some._count == 40
    local = [some.admit(peer) for _ in range(16)]
    assert None not in local
    for address in local:
        some.release(address)
    assert some.admit(("10.0.1.1", 1)) is None


def test_a_site_cannot_have_all_connections_by_its_many_networks() -> None:
    some = ConnectionLimits(20)
    come = [some.admit((f"2001:db8:1:{network:x}::1", 1, 0, 0)) for network in range(60)]
    let_in = [address for address in come if address is not None]
    assert len(let_in) == 30
    assert some.admit(("2001:db8:2::1", 1, 0, 0)) is not None
    for address in let_in:
        some.release(address)
    assert some.admit(("2001:db8:1::1", 1, 0, 0)) is not None


def test_connections_are_no_more_than_files_that_may_be_open(monkeypatch, caplog) -> None:
    resource = pytest.importorskip("resource")
    given = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 1024))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: given.append(limits))
    assert connection_limits.most_connections() == (1024 - 160) // 2
    assert given == [(1024, 1024)]
    assert "ulimit -n" in caplog.text
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert connection_limits.most_connections() == connection_limits.MOST
