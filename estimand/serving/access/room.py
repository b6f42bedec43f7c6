"""Memory for large requests of all clients together, and who may send how much next.

A request is let in piece by piece, as it comes: who announces much and sends little holds little.
Whoever finds no room waits, and its client with it: nothing is refused. Room that becomes free
goes to the connection that has the least. Who was let in, and sends too slowly while others wait,
has to go.

>>> room, party = Room(limit=100), Party()
>>> first, second = Guest(party), Guest(Party())
>>> for guest, size in ((first, 80), (second, 50)):
...     room.enter(guest, missing=size)
...     room.ask(guest, size)
>>> first.promised, second.promised
(80, 0)
>>> room.leave(first)
>>> second.promised
50
"""

from __future__ import annotations

from collections import deque

from estimand.serving.status import StatusError

PIECE = 2**20  # bytes that a request is let in for at first; then for as much as it has sent


class Party:
    """A connection, with all its large requests."""

    __slots__ = ("promised", "taken", "waiting")

    def __init__(self) -> None:
        self.taken = 0
        self.promised = 0  # of what is taken, bytes that have not come yet
        self.waiting: deque[Guest] = deque()


class Guest:
    """A large request, until it is answered. Subclasses are told what becomes of it."""

    __slots__ = ("arrived", "asks", "gone", "missing", "party", "promised", "seen", "slow", "taken")

    def __init__(self, party: Party) -> None:
        self.party = party
        self.taken = self.promised = self.arrived = 0
        self.asks = 0  # bytes that it waits for
        self.missing = 0  # bytes until it is whole
        self.gone = False
        self.seen = 0  # of what has arrived, at the last tick
        self.slow = 0.0  # seconds

    def next_piece(self, most: int) -> int:
        return min(self.missing, max(PIECE, self.arrived), max(PIECE, most // 4))

    def may_send(self, size: int) -> None:
        """So much more."""

    def is_too_slow(self) -> None:
        """Others wait for the room it has."""


class Room:
    """Lives in the event loop. A request that is larger than all of it comes in when no other
    can go on; so what is taken is at most the limit, and one request."""

    def __init__(
        self,
        limit: int,
        promise: int = 4 * PIECE,  # bytes that one connection may be let in for and not send
        slowest: int = 64 * 1024,  # bytes in a second, while others wait
        patience: float = 5.0,  # seconds with less
    ) -> None:
        self.limit = limit
        self.taken = 0
        self.held = 0
        self._promise = promise
        self._slowest = slowest
        self._patience = patience
        self._guests: set[Guest] = set()
        self._moving: set[Guest] = set()  # who may send, or has sent all
        self._queue: set[Party] = set()  # who waits for nothing but room
        self._leader: Guest | None = None  # whom the limit does not hold for
        self._ticked: float | None = None

    # ------------------------------------------------------------ small parts

    def hold(self, size: int) -> None:
        """For the start of a request, which comes without asking. Refused if that becomes as
        much as all of the room."""
        self.held += size
        if self.held > self.limit:
            text = f"{self.held} bytes of unfinished requests are in the server's memory."
            raise StatusError.of("RESOURCE_EXHAUSTED", text)

    def release(self, size: int) -> None:
        self.held -= size

    # ------------------------------------------------------------ guests

    def enter(self, guest: Guest, missing: int, may_send: int = 0) -> None:
        """How many bytes it lacks, and how many of them it may send as it is."""
        guest.missing = missing
        guest.promised = may_send
        guest.party.promised += may_send
        self._guests.add(guest)
        if may_send:
            self._moving.add(guest)

    def ask(self, guest: Guest, size: int) -> None:
        """It is told when it may send so much more."""
        guest.asks = size
        waiting = guest.party.waiting
        (waiting.appendleft if guest is self._leader else waiting.append)(guest)
        self._serve(guest.party)

    def came(self, guest: Guest, size: int) -> None:
        """Of what it may send."""
        guest.arrived += size
        guest.missing -= size
        filled = min(size, guest.promised)
        guest.promised -= filled
        guest.party.promised -= filled
        if guest.missing <= 0:
            self.is_whole(guest)
        elif not guest.promised:
            self._moving.discard(guest)
        if guest.party.waiting:
            self._serve(guest.party)
        if not self._moving:
            self._share_out()

    def is_whole(self, guest: Guest) -> None:
        """What it was let in for beyond its end is given back."""
        unused, guest.promised, guest.missing = guest.promised, 0, 0
        guest.party.promised -= unused
        self._moving.add(guest)
        self._take(guest, -min(unused, guest.taken))

    def grow(self, guest: Guest, size: int) -> None:
        """At once, or refused: for what a request becomes when it is read."""
        if self.taken + size > self.limit and self.taken > guest.taken:
            text = f"{self.taken} bytes of requests are in the server's memory."
            raise StatusError.of("RESOURCE_EXHAUSTED", text)
        self._guests.add(guest)
        self._moving.add(guest)
        self._take(guest, size)

    def leave(self, guest: Guest) -> None:
        guest.gone = True
        self._guests.discard(guest)
        self._moving.discard(guest)
        if self._leader is guest:
            self._leader = None
        party = guest.party
        party.promised -= guest.promised
        self._take(guest, -guest.taken)
        if party.waiting:
            self._serve(party)
        self._share_out()

    def tick(self, now: float) -> None:
        """To be called about once a second."""
        passed = 0.0 if self._ticked is None else now - self._ticked
        self._ticked = now
        for guest in list(self._guests):
            came, guest.seen = guest.arrived - guest.seen, guest.arrived
            has_room = guest.taken and guest.promised  # that it does not use
            if self._queue and has_room and came < passed * self._slowest:
                guest.slow += passed
            else:
                guest.slow = 0.0
            if guest.slow > self._patience:
                guest.is_too_slow()

    # ------------------------------------------------------------ who is next

    def _serve(self, party: Party) -> None:
        """Let in what a connection asks for, within what may be promised to it."""
        waiting = party.waiting
        while waiting:
            guest = waiting[0]
            if guest.gone:
                waiting.popleft()
            elif party.promised and party.promised + guest.asks > self._promise:
                break
            elif guest is self._leader or (not self._queue and self._fits(guest)):
                waiting.popleft()
                self._let_in(guest)
            else:
                self._queue.add(party)
                self._share_out()
                return
        self._queue.discard(party)

    def _fits(self, guest: Guest) -> bool:
        return self.taken + guest.asks <= self.limit

    def _share_out(self) -> None:
        while self._queue:
            all_wait = not self._moving and self._leader is None
            if self.taken >= self.limit and not all_wait:
                return
            party = min(self._queue, key=lambda party: party.taken)
            if not self._fits(party.waiting[0]):
                if not all_wait:
                    return
                # They wait for each other: the one that needs least gets what it needs.
                party = min(self._queue, key=lambda party: party.waiting[0].missing)
                self._leader = party.waiting[0]
            self._queue.discard(party)
            self._let_in(party.waiting.popleft())
            self._requeue(party)

    def _requeue(self, party: Party) -> None:
        while party.waiting and party.waiting[0].gone:
            party.waiting.popleft()
        if party.waiting:
            asks = party.waiting[0].asks
            if not party.promised or party.promised + asks <= self._promise:
                self._queue.add(party)

    def _let_in(self, guest: Guest) -> None:
        size, guest.asks = guest.asks, 0
        guest.promised += size
        guest.party.promised += size
        guest.slow, guest.seen = 0.0, guest.arrived
        self._moving.add(guest)
        self._take(guest, size)
        guest.may_send(size)

    def _take(self, guest: Guest, size: int) -> None:
        guest.taken += size
        guest.party.taken += size
        self.taken += size
