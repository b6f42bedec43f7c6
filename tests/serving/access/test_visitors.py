"""One address cannot keep the others out."""

from __future__ import annotations

import pytest

from estimand.serving.access import visitors
from estimand.serving.access.visitors import Visitors


def test_who_goes_makes_room() -> None:
    some = Visitors(1)
    first = some.come(("10.0.0.1", 1))
    assert some.come(("10.0.0.1", 2)) is None
    some.go(None)  # who was not let in
    some.go(first)
    assert some.come(("10.0.0.1", 3)) is not None
    assert some.come("") is not None  # of a UNIX socket


def test_there_is_room_for_an_address_that_has_none() -> None:
    """However many come, the next ones have less, and never nothing."""
    some = Visitors(100)
    let_in = [
        sum(some.come((f"10.0.0.{host}", port)) is not None for port in range(150))
        for host in range(5)
    ]
    assert let_in == [100, 50, 25, 13, 6]


@pytest.mark.parametrize("peer", [("127.0.0.1", 1), ("::1", 1, 0, 0), ""])
def test_there_is_room_for_clients_of_this_machine(peer: object) -> None:
    some = Visitors(20)
    while some.come((f"10.0.0.{some._count}", 1)) is not None:
        pass
    assert some._count == 40
    local = [some.come(peer) for _ in range(16)]
    assert None not in local
    for address in local:
        some.go(address)
    assert some.come(("10.0.1.1", 1)) is None


def test_a_site_cannot_have_all_connections_by_its_many_networks() -> None:
    some = Visitors(20)
    come = [some.come((f"2001:db8:1:{network:x}::1", 1, 0, 0)) for network in range(60)]
    let_in = [address for address in come if address is not None]
    assert len(let_in) == 30
    assert some.come(("2001:db8:2::1", 1, 0, 0)) is not None
    for address in let_in:
        some.go(address)
    assert some.come(("2001:db8:1::1", 1, 0, 0)) is not None


def test_connections_are_no_more_than_files_that_may_be_open(monkeypatch, caplog) -> None:
    resource = pytest.importorskip("resource")
    given = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 1024))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: given.append(limits))
    assert visitors.most_connections() == (1024 - 160) // 2
    assert given == [(1024, 1024)]
    assert "ulimit -n" in caplog.text
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert visitors.most_connections() == visitors.MOST
