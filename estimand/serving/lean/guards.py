"""What a peer may cost: frames without work, calls taken back, pings."""

from __future__ import annotations

from estimand.serving.lean.frames import Code, ConnectionFault
from estimand.serving.lean.limits import Limits


class Bucket:
    """So many at once, and a part of it more each second.

    >>> bucket = Bucket(most=3, per_second=1.0)
    >>> [bucket.take(1, now=0.0) for _ in range(4)]
    [True, True, True, False]
    >>> bucket.take(1, now=2.0)
    True
    """

    __slots__ = ("_filled", "_left", "_most", "_per_second")

    def __init__(self, most: float, per_second: float) -> None:
        self._most = most
        self._left = most
        self._per_second = per_second
        self._filled = 0.0

    def take(self, amount: float, now: float) -> bool:
        if now > self._filled:
            self._left = min(self._most, self._left + (now - self._filled) * self._per_second)
            self._filled = now
        self._left -= amount
        return self._left >= 0

    def add(self, amount: float) -> None:
        self._left = min(self._most, self._left + amount)


class Guard:
    """Counts what one connection sends that is no work."""

    __slots__ = (
        "_frames",
        "_last_ping",
        "_limits",
        "_paid",
        "_resets",
        "_sends_at_ping",
        "_sends_at_reset",
        "_strikes",
    )

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._frames = Bucket(limits.idle_frames, limits.idle_frames / 5)
        self._resets = Bucket(limits.resets, limits.resets / 5)
        self._paid = 0
        self._last_ping = float("-inf")
        self._strikes = 0
        self._sends_at_ping = 0
        self._sends_at_reset = 0

    def idle_frame(self, now: float, streams: int, sends: int, cost: int = 1) -> None:
        """A frame that brings no request.

        Those that belong to work are free: some for each stream that was opened, and two for
        each frame of an answer, whose reader opens two windows. Both are told as they are so far.
        """
        earned = streams * self._limits.idle_frames_per_stream + 2 * sends
        if earned > self._paid:
            self._frames.add(earned - self._paid)
            self._paid = earned
        if not self._frames.take(cost, now):
            raise ConnectionFault(Code.ENHANCE_YOUR_CALM, "too many frames that ask for nothing")

    def reset(self, now: float, sends: int) -> None:
        """The peer took back a call. Fine, as long as it lets us answer others.

        `sends`: how many frames of answers were sent so far.
        """
        self._resets.add(sends - self._sends_at_reset)
        self._sends_at_reset = sends
        if not self._resets.take(1, now):
            raise ConnectionFault(Code.ENHANCE_YOUR_CALM, "too many calls taken back")

    def ping(self, now: float, sends: int) -> None:
        """As gRPC's own servers count: pings are for connections on which nothing is sent."""
        if sends != self._sends_at_ping:
            self._sends_at_ping = sends
            self._strikes = 0
        elif now - self._last_ping < self._limits.ping_interval_seconds:
            self._strikes += 1
            if self._strikes > self._limits.ping_strikes:
                raise ConnectionFault(Code.ENHANCE_YOUR_CALM, "too_many_pings")
        self._last_ping = now
