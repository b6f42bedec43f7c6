"""Trying again, within a deadline.

Only what the server could not take at the moment is sent again: UNAVAILABLE (503), and
RESOURCE_EXHAUSTED (429). Pauses grow, and are drawn at random, so that many clients do not come
back together. A model that is still being loaded is waited for as long as there is time.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from estimand.core.errors import ConfigError
from estimand.serving.client.errors import DeadlineError, RequestError

Answer = TypeVar("Answer")
_LONGEST_WHILE_LOADING = 1.0  # seconds


@dataclass(frozen=True)
class Retries:
    """How often, and how long to wait: at most `first_pause`, then twice as long each time.

    Args:
      attempts: how often to ask at most.
      first_pause: seconds at most before the second time.
      longest_pause: upper bound of a pause, in seconds.

    >>> Retries(attempts=0)
    Traceback (most recent call last):
        ...
    estimand.core.errors.ConfigError: Retries(attempts=0): at least one attempt is needed. For \
no second one, use attempts=1.
    """

    attempts: int = 5
    first_pause: float = 0.1
    longest_pause: float = 5.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ConfigError(
                f"Retries(attempts={self.attempts}): at least one attempt is needed. For no "
                "second one, use attempts=1."
            )
        if min(self.first_pause, self.longest_pause) < 0:
            raise ConfigError(f"{self}: pauses are 0 or more seconds.")


def call(
    attempt: Callable[[float], Answer],
    ends: float,
    retries: Retries,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
    draw: Callable[[], float] = random.random,
) -> Answer:
    """What `attempt(seconds left)` returns, at the first success before the clock says `ends`."""
    number = 0
    while True:
        left = ends - clock()
        if left <= 0:
            raise DeadlineError(
                "DEADLINE_EXCEEDED", "There was no answer in time; set a longer timeout."
            )
        number += 1
        try:
            return attempt(left)
        except RequestError as error:
            waits = error.is_loading and retries.attempts > 1
            if not waits and (not error.may_retry or number >= retries.attempts):
                raise
            longest = min(
                _LONGEST_WHILE_LOADING if waits else retries.longest_pause,
                retries.first_pause * 2 ** min(number - 1, 16),
            )
            pause = max(draw() * longest, error.retry_after or 0.0)
            if clock() + pause >= ends:
                raise
        sleep(pause)
