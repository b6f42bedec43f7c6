"""Answers to requests that have not come whole: refusals.

Some clients (curl up to 8) take a stream that the server ends for closed, and fail when they want
to send the rest, instead of reading the answer. So an answer waits for the end of its request,
which usually is right behind; what comes until then is passed over. Who sends much, or takes its
time, is answered at once. Such a request has no room and no deadline any more, and only so many of
a connection wait.
"""

from __future__ import annotations

from collections.abc import Callable

from estimand.serving.lean.limits import Limits
from estimand.serving.lean.streams import Stream


class EarlyAnswers:
    """`send` is given each stream whose answer has waited. Times are those of the ticks."""

    __slots__ = ("_limits", "_send", "_waiting")

    def __init__(self, limits: Limits, send: Callable[[Stream], None]) -> None:
        self._limits = limits
        self._send = send
        # Streams in the order they came, since when, and how much of each may still come.
        self._waiting: dict[int, tuple[Stream, float, int]] = {}

    def wait(self, stream: Stream, now: float) -> None:
        self._waiting[stream.id] = (stream, now, self._limits.early_answer_bytes)
        if len(self._waiting) > self._limits.early_answers:
            self._answer(next(iter(self._waiting)))

    def came(self, stream: Stream, size: int) -> None:
        """More of its request."""
        _, since, left = self._waiting[stream.id]
        if stream.ended or size > left:
            self._answer(stream.id)
        else:
            self._waiting[stream.id] = (stream, since, left - size)

    def drop(self, stream: Stream) -> None:
        self._waiting.pop(stream.id, None)

    def tick(self, now: float) -> None:
        for number, (_, since, _) in list(self._waiting.items()):
            if now - since < self._limits.early_answer_seconds:
                break  # the others came later
            self._answer(number)

    def _answer(self, number: int) -> None:
        self._send(self._waiting.pop(number)[0])
