"""More requests than can be answered: who is turned away, when, and who never is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from estimand.serving.batching.batches import Batch, BatchSettings, Task
from estimand.serving.batching.lane import Lane, Waiting
from estimand.serving.batching.turns import Turns
from estimand.serving.lean.headers import PUSHBACK, trailers
from estimand.serving.models.programs import Joins, Program
from estimand.serving.rest.quick import retry_after
from estimand.serving.status import StatusError, overloaded


class Asked(Task):
    """A request of a client for one row. `order` is told when it is answered."""

    def __init__(self, client: str, order: list[str], deadline: float | None = None) -> None:
        super().__init__([np.float32([1.0])], deadline)
        self.client = client
        self._order = order

    def answered(self, outputs: list[np.ndarray]) -> None:
        self._order.append(self.client)

    def failed(self, error: StatusError) -> None:
        self._order.append(f"{self.client} {error.name}")


class Gate:
    """A model that answers when it may."""

    def __init__(self) -> None:
        self._opened = threading.Event()
        self.open = self._opened.set

    def __call__(self, x: np.ndarray) -> list[np.ndarray]:
        self._opened.wait(60)
        return [x]


class Street:
    """Lanes that share what may wait, behind a gate."""

    def __init__(self, pool: ThreadPoolExecutor, waiting: Waiting) -> None:
        self.gate = Gate()
        self.order: list[str] = []
        self._pool = pool
        self._waiting = waiting

    def lane(self, joins: Joins | None = None) -> Lane:
        return Lane(Program(self.gate, joins=joins), BatchSettings(), self._pool, self._waiting)

    def ask(self, lane: Lane, client: str, count: int = 1, deadline: float | None = None) -> int:
        """How many of so many requests were taken."""
        taken = 0
        for _ in range(count):
            try:
                lane.submit(Asked(client, self.order, deadline))
                taken += 1
            except StatusError as error:
                assert error.name == "RESOURCE_EXHAUSTED"
                assert error.retry_after is not None
        return taken

    async def all_done(self, lane: Lane) -> None:
        self.gate.open()
        while lane.waiting or lane._running:
            await asyncio.sleep(0.001)


def on(waiting: Waiting, act: Callable[[Street], Any]) -> None:
    async def main() -> None:
        with ThreadPoolExecutor(1) as pool:
            street = Street(pool, waiting)
            try:
                await act(street)
            finally:
                street.gate.open()

    asyncio.run(main())


async def begun(street: Street, lane: Lane) -> None:
    """One request runs, and others will wait."""
    street.ask(lane, "first")
    while not lane._running:
        await asyncio.sleep(0)


def measured(lane: Lane, seconds: float) -> None:
    """As if tasks of this lane had ended so far apart."""
    at = 100.0
    for _ in range(40):
        batch = Batch(lane.program, lane.settings, [Asked("before", [])])
        batch.began = at
        at += seconds
        lane._measure(at, batch)


def test_a_request_that_would_wait_too_long_is_refused_at_once() -> None:
    async def act(street: Street) -> None:
        lane = street.lane()
        await begun(street, lane)
        measured(lane, 0.1)
        taken = street.ask(lane, "a", 100)
        assert 20 <= taken <= 22  # two seconds of them
        with pytest.raises(StatusError) as caught:
            lane.submit(Asked("a", []))
        assert caught.value.retry_after == pytest.approx(2.1, abs=0.15)

    on(Waiting(1000, seconds=2.0), act)


def test_some_may_wait_for_a_model_that_takes_longer_than_anyone_may_wait() -> None:
    async def act(street: Street) -> None:
        lane = street.lane()
        await begun(street, lane)
        measured(lane, 60.0)
        assert 8 <= street.ask(lane, "a", 100) <= 10

    on(Waiting(1000, seconds=2.0), act)


def test_a_request_whose_client_would_be_gone_is_refused_at_once() -> None:
    async def act(street: Street) -> None:
        lane = street.lane()
        await begun(street, lane)
        measured(lane, 0.1)
        assert street.ask(lane, "a", 10) == 10
        now = asyncio.get_running_loop().time()
        assert street.ask(lane, "a", 1, deadline=now + 0.5) == 0
        assert street.ask(lane, "a", 1, deadline=now + 60) == 1

    on(Waiting(1000, seconds=2.0), act)


def test_a_client_that_floods_a_model_does_not_keep_another_from_it() -> None:
    async def act(street: Street) -> None:
        lane = street.lane()
        await begun(street, lane)
        measured(lane, 0.1)
        street.ask(lane, "flood", 100)
        assert street.ask(lane, "b", 2) == 2
        await street.all_done(lane)
        assert street.order[:6] == ["first", "flood", "b", "flood", "b", "flood"]

    on(Waiting(1000, seconds=2.0), act)


def test_clients_take_turns_where_requests_are_joined_too() -> None:
    async def act(street: Street) -> None:
        lane = street.lane(Joins())
        lane.settings = BatchSettings(max_rows=2)
        await begun(street, lane)
        street.ask(lane, "flood", 6)
        street.ask(lane, "b")
        await street.all_done(lane)
        assert street.order.index("b") <= 2

    on(Waiting(1000), act)


def test_a_full_server_has_room_for_who_has_none() -> None:
    async def act(street: Street) -> None:
        lane, other = street.lane(), street.lane()
        await begun(street, lane)
        assert street.ask(lane, "a", 100) == 30  # max_queued_requests
        assert street.ask(lane, "b", 100) == 0  # the model has as many as it may
        assert street.ask(other, "a", 100) == 0  # and so has the client
        assert street.ask(other, "b", 100) == 15
        assert 7 <= street.ask(street.lane(), "c", 100) <= 8

    on(Waiting(30), act)


def test_what_was_given_back_is_next() -> None:
    turns = Turns()
    tasks = [Asked(name[0], []) for name in ("a1", "b1", "a2", "b2")]
    for task in tasks:
        turns.append(task)
    taken = [turns.popleft() for _ in range(2)]
    turns.give_back(taken)
    assert (len(turns), turns.clients, turns.of("a")) == (4, 2, 2)
    assert [turns.popleft() for _ in range(4)] == tasks


def test_who_is_refused_is_told_when_to_come_again() -> None:
    error = overloaded("full", 1.2)
    assert retry_after(error) == b"\r\nretry-after: 2"
    assert PUSHBACK in trailers(error) and b"1200" in trailers(error)
    other = StatusError.of("NOT_FOUND", "none")
    assert retry_after(other) == b""
    assert PUSHBACK not in trailers(other)
