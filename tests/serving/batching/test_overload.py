"""More requests than can be answered: who is turned away, when, and who never is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from estimand.serving.batching import lane as batching
from estimand.serving.batching.batches import BatchSettings, Task
from estimand.serving.batching.lane import Lane, Waiting
from estimand.serving.batching.pace import Pace
from estimand.serving.batching.programs import JoinableShapes, Program
from estimand.serving.batching.turns import Turns
from estimand.serving.lean.headers import PUSHBACK, trailers
from estimand.serving.rest.exchange import retry_after
from estimand.serving.status import StatusError, overloaded


@dataclass
class Nobody:
    """Whom the task itself does not tell."""

    client: str
    gone: bool = False


class Asked(Task):
    """A request of a client for one row. `order` is told when it is answered."""

    def __init__(self, client: str, order: list[str], deadline: float | None = None) -> None:
        super().__init__([np.float32([1.0])], deadline, Nobody(client))
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

    def lane(self, joins: JoinableShapes | None = None) -> Lane:
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
        lane._pace.note(at + seconds, at, [Asked("before", [])], lane._tasks)
        at += seconds


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


def test_a_client_whom_others_pass_waits_for_turns_of_its_own() -> None:
    """Ten of "flood" wait, and each turn of its own comes after two of others who ask again."""
    waiting, pace = Turns(), Pace()
    for _ in range(10):
        waiting.append(Asked("flood", []))
    assert pace.wait(waiting, "flood") == 0.0
    at = 100.0
    for client in ("b", "c", "flood") * 10:
        pace.note(at + 0.1, at, [Asked(client, [])], waiting)
        at += 0.1
    assert pace.each == pytest.approx(0.1)
    assert pace.wait(waiting, "flood") == pytest.approx(11 * 0.3)
    assert pace.wait(waiting, "b") == pytest.approx(0.1)  # it has none: its turn is next
    pace.note(at, at - 0.1, [Asked("flood", [])], Turns())
    assert not pace._own  # of nobody who has nothing


def test_clients_take_turns_where_requests_are_joined_too() -> None:
    async def act(street: Street) -> None:
        lane = street.lane(JoinableShapes())
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


def test_what_runs_in_the_event_loop_leaves_turns_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(batching, "_TURN_SECONDS", 0.0)
    answered: list[int] = []  # by each turn of the event loop

    async def act(street: Street) -> None:
        street.gate.open()
        lane = street.lane()
        for _ in range(10):
            await lane.run([np.float32([1.0])])  # so that it is known to be quick
        assert street.ask(lane, "a", 5) == 5
        while lane.waiting:
            before = len(street.order)
            await asyncio.sleep(0)
            answered.append(len(street.order) - before)
        assert lane._pace.each > 0  # so that who comes meanwhile can be told how long it waits

    on(Waiting(1000), act)
    assert max(answered) == 1


def test_clients_that_left_with_what_they_had_waiting_are_forgotten() -> None:
    pace = Pace()
    for number in range(100):
        waiting = Turns()  # the one before has left
        task = Asked(f"client {number}", [])
        for one in (Asked("stays", []), task):
            waiting.append(one)
        pace.note(float(number), float(number), [task], waiting)
    assert len(pace._own) <= 4
