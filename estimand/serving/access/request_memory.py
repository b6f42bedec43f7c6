"""Memory for large requests of all clients together, and who may send how much next.

A request is let in piece by piece, as it comes: who announces much and sends little holds little.
Whoever finds none waits, and its client with it: nothing is refused. What becomes free
goes to the connection that has the least. Who was let in, and sends too slowly while others wait,
has to go.

>>> memory, share = RequestMemory(limit=100), ConnectionShare()
>>> first, second = LargeRequest(share), LargeRequest(ConnectionShare())
>>> for request, size in ((first, 80), (second, 50)):
...     memory.enter(request, missing=size)
...     memory.ask(request, size)
>>> first.promised, second.promised
(80, 0)
>>> memory.leave(first)
>>> second.promised
50
"""

from __future__ import annotations

from collections import deque

from estimand.serving.status import StatusError

PIECE = 2**20  # bytes that a request is let in for at first; then for as much as it has sent


class ConnectionShare:
    """A connection, with all its large requests."""

    __slots__ = ("promised", "taken", "waiting")

    def __init__(self) -> None:
        self.taken = 0
        self.promised = 0  # of what is taken, bytes that have not come yet
        self.waiting: deque[LargeRequest] = deque()


class LargeRequest:
    """A large request, until it is answered. Subclasses are told what becomes of it."""

    __slots__ = ("arrived", "asks", "gone", "missing", "promised", "seen", "share", "slow", "taken")

    def __init__(self, share: ConnectionShare) -> None:
        self.share = share
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


class RequestMemory:
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
        self._requests: set[LargeRequest] = set()
        self._moving: set[LargeRequest] = set()  # who may send, or has sent all
        self._queue: set[ConnectionShare] = set()  # who waits for nothing but room
        self._leader: LargeRequest | None = None  # whom the limit does not hold for
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

    # ------------------------------------------------------------ large requests

    def enter(self, request: LargeRequest, missing: int, may_send: int = 0) -> None:
        """How many bytes it lacks, and how many of them it may send as it is."""
        request.missing = missing
        request.promised = may_send
        request.share.promised += may_send
        self._requests.add(request)
        if may_send:
            self._moving.add(request)

    def ask(self, request: LargeRequest, size: int) -> None:
        """It is told when it may send so much more."""
        request.asks = size
        waiting = request.share.waiting
        (waiting.appendleft if request is self._leader else waiting.append)(request)
        self._serve(request.share)

    def came(self, request: LargeRequest, size: int) -> None:
        """Of what it may send."""
        request.arrived += size
        request.missing -= size
        filled = min(size, request.promised)
        request.promised -= filled
        request.share.promised -= filled
        if request.missing <= 0:
            self.is_whole(request)
        elif not request.promised:
            self._moving.discard(request)
        if request.share.waiting:
            self._serve(request.share)
        if not self._moving:
            self._share_out()

    def is_whole(self, request: LargeRequest) -> None:
        """What it was let in for beyond its end is given back."""
        unused, request.promised, request.missing = request.promised, 0, 0
        request.share.promised -= unused
        self._moving.add(request)
        self._take(request, -min(unused, request.taken))

    def grow(self, request: LargeRequest, size: int) -> None:
        """At once, or refused: for what a request becomes when it is read."""
        if self.taken + size > self.limit and self.taken > request.taken:
            text = f"{self.taken} bytes of requests are in the server's memory."
            raise StatusError.of("RESOURCE_EXHAUSTED", text)
        self._requests.add(request)
        self._moving.add(request)
        self._take(request, size)

    def leave(self, request: LargeRequest) -> None:
        request.gone = True
        self._requests.discard(request)
        self._moving.discard(request)
        if self._leader is request:
            self._leader = None
        share = request.share
        share.promised -= request.promised
        self._take(request, -request.taken)
        if share.waiting:
            self._serve(share)
        self._share_out()

    def tick(self, now: float) -> None:
        """To be called about once a second."""
        passed = 0.0 if self._ticked is None else now - self._ticked
        self._ticked = now
        for request in list(self._requests):
            came, request.seen = (
                request.arrived - request.seen,
                request.arrived,
            )
            has_room = request.taken and request.promised  # that it does not use
            if self._queue and has_room and came < passed * self._slowest:
                request.slow += passed
            else:
                request.slow = 0.0
            if request.slow > self._patience:
                request.is_too_slow()

    # ------------------------------------------------------------ who is next

    def _serve(self, share: ConnectionShare) -> None:
        """Let in what a connection asks for, within what may be promised to it."""
        waiting = share.waiting
        while waiting:
            request = waiting[0]
            if request.gone:
                waiting.popleft()
            elif share.promised and share.promised + request.asks > self._promise:
                break
            elif request is self._leader or (not self._queue and self._fits(request)):
                waiting.popleft()
                self._let_in(request)
            else:
                self._queue.add(share)
                self._share_out()
                return
        self._queue.discard(share)

    def _fits(self, request: LargeRequest) -> bool:
        return self.taken + request.asks <= self.limit

    def _share_out(self) -> None:
        while self._queue:
            all_wait = not self._moving and self._leader is None
            if self.taken >= self.limit and not all_wait:
                return
            share = min(self._queue, key=lambda share: share.taken)
            if not self._fits(share.waiting[0]):
                if not all_wait:
                    return
                # They wait for each other: the one that needs least gets what it needs.
                share = min(self._queue, key=lambda share: share.waiting[0].missing)
                self._leader = share.waiting[0]
            self._queue.discard(share)
            self._let_in(share.waiting.popleft())
            self._requeue(share)

    def _requeue(self, share: ConnectionShare) -> None:
        while share.waiting and share.waiting[0].gone:
            share.waiting.popleft()
        if share.waiting:
            asks = share.waiting[0].asks
            if not share.promised or share.promised + asks <= self._promise:
                self._queue.add(share)

    def _let_in(self, request: LargeRequest) -> None:
        size, request.asks = request.asks, 0
        request.promised += size
        request.share.promised += size
        request.slow, request.seen = 0.0, request.arrived
        self._moving.add(request)
        self._take(request, size)
        request.may_send(size)

    def _take(self, request: LargeRequest, size: int) -> None:
        request.taken += size
        request.share.taken += size
        self.taken += size
