"""Room for large requests: shared fairly, bounded, and never a reason for all to wait for ever."""

from __future__ import annotations

import random

import pytest

from estimand.serving.access.request_memory import (
    PIECE,
    ConnectionShare,
    LargeRequest,
    RequestMemory,
)
from estimand.serving.status import StatusError


class Request(LargeRequest):
    __slots__ = ("must_go", "window")

    def __init__(self, share: ConnectionShare) -> None:
        super().__init__(share)
        self.window = 0
        self.must_go = False

    def may_send(self, size: int) -> None:
        self.window += size

    def is_too_slow(self) -> None:
        self.must_go = True

    def send(self, memory: RequestMemory, size: int) -> None:
        self.window -= size
        memory.came(self, size)


def request(memory: RequestMemory, size: int, share: ConnectionShare | None = None) -> Request:
    made = Request(share or ConnectionShare())
    memory.enter(made, size)
    memory.ask(made, made.next_piece(memory.limit))
    return made


def test_who_sends_gets_larger_pieces_and_who_does_not_holds_one() -> None:
    memory = RequestMemory(limit=64 * PIECE)
    idle, busy = request(memory, 300 * PIECE), request(memory, 32 * PIECE)
    pieces = []
    while busy.missing:
        pieces.append(busy.window)
        busy.send(memory, busy.window)
        if busy.missing:
            memory.ask(busy, busy.next_piece(memory.limit))
    assert [size // PIECE for size in pieces] == [1, 1, 2, 4, 8, 16]
    assert (idle.taken, busy.taken) == (PIECE, 32 * PIECE)


def test_free_room_goes_to_the_connection_that_has_least() -> None:
    memory = RequestMemory(limit=4 * PIECE, promise=100 * PIECE)
    many = ConnectionShare()
    first = [request(memory, 2 * PIECE, many) for _ in range(4)]
    fifth, other = request(memory, 2 * PIECE, many), request(memory, 2 * PIECE)
    assert (fifth.window, other.window) == (0, 0)
    memory.leave(first[0])
    assert (fifth.window, other.window) == (0, PIECE)
    memory.leave(first[1])
    assert fifth.window == PIECE


def test_one_connection_is_promised_little_until_it_sends() -> None:
    memory = RequestMemory(limit=100 * PIECE, promise=2 * PIECE)
    share = ConnectionShare()
    requests = [request(memory, 2 * PIECE, share) for _ in range(5)]
    assert [one.window // PIECE for one in requests] == [1, 1, 0, 0, 0]
    requests[0].send(memory, PIECE)
    assert [one.window // PIECE for one in requests] == [0, 1, 1, 0, 0]
    memory.leave(requests[1])
    assert requests[3].window == PIECE


def test_slow_ones_go_only_while_others_wait() -> None:
    memory = RequestMemory(limit=2 * PIECE, slowest=1000, patience=2.0)
    slow, quick = request(memory, 9 * PIECE), request(memory, 9 * PIECE)
    for now in range(10):
        memory.tick(float(now))
    assert not slow.must_go and not quick.must_go
    waiting = request(memory, PIECE)
    for now in range(10, 14):
        quick.send(memory, 2000)
        slow.send(memory, 10)
        memory.tick(float(now))
    assert (slow.must_go, quick.must_go, waiting.must_go) == (True, False, False)
    memory.leave(slow)
    assert waiting.window == PIECE


def test_who_waits_is_not_slow_however_much_it_might_send_without_room() -> None:
    memory = RequestMemory(limit=PIECE, slowest=1000, patience=2.0)
    slow = request(memory, 9 * PIECE)
    waiting = Request(ConnectionShare())
    memory.enter(waiting, 9 * PIECE, may_send=65_535)  # as the first window of a stream has it
    memory._requests = {one: None for one in (waiting, slow)}  # type: ignore[assignment]  # in order
    memory.ask(waiting, PIECE)
    for now in range(5):
        memory.tick(float(now))
    assert (slow.must_go, waiting.must_go) == (True, False)


def test_what_a_request_becomes_is_refused_if_others_have_the_room() -> None:
    memory = RequestMemory(limit=4 * PIECE)
    alone = LargeRequest(ConnectionShare())
    memory.grow(alone, 9 * PIECE)  # larger than all of it, but nobody else is there
    with pytest.raises(StatusError, match="RESOURCE_EXHAUSTED: 9437184 bytes of requests are"):
        memory.grow(LargeRequest(ConnectionShare()), PIECE)
    memory.leave(alone)
    assert memory.taken == 0


@pytest.mark.parametrize("seed", range(60))
def test_whatever_comes_all_get_through_and_the_room_is_bounded(seed: int) -> None:
    """Requests of all sizes that come, go on, end and break off in any order."""
    chance = random.Random(seed)
    memory = RequestMemory(limit=chance.choice([1, 4, 16]) * PIECE)
    shares = [ConnectionShare() for _ in range(chance.randint(1, 4))]
    sizes = [1, 100, PIECE, 3 * PIECE, 5 * PIECE, 40 * PIECE]
    to_come = [chance.choice(sizes) for _ in range(chance.randint(1, 12))]
    largest = max(to_come)
    here: list[Request] = []
    while to_come or here:
        if to_come and chance.random() < 0.3:
            here.append(request(memory, to_come.pop(), chance.choice(shares)))
        able = [one for one in here if one.window or not one.missing]
        assert able or to_come or not here, "all wait for each other"
        if able:
            _go_on(memory, chance.choice(able), here, chance)
        assert memory.taken <= memory.limit + largest
        assert memory.taken == sum(one.taken for one in here)
        for share in shares:
            assert share.promised == sum(one.promised for one in here if one.share is share)
    assert memory.taken == 0
    assert not memory._queue and not memory._moving and not memory._requests


def _go_on(memory: RequestMemory, one: Request, here: list[Request], chance: random.Random) -> None:
    if not one.missing or chance.random() < 0.05:
        memory.leave(one)
        here.remove(one)
        return
    one.send(memory, min(one.window, chance.choice([one.window, PIECE, max(1, one.window // 2)])))
    if one.missing > one.window and not one.asks:
        memory.ask(one, min(one.missing - one.window, one.next_piece(memory.limit)))
