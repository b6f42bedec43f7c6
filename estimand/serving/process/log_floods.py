"""An error that comes a thousand times is told a few times, and then counted.

What clients send decides how often an error is logged, so it must not decide how fast a disk
fills. Texts that differ count as different, up to a number for each place that tells them.

>>> floods = Floods(most=1, seconds=60, clock=lambda: 0.0)
>>> def tell(text):
...     record = logging.LogRecord("serving", logging.ERROR, "face.py", 12, text, (), None)
...     return floods.filter(record)
>>> tell("m failed"), tell("m failed"), tell("n failed")
(True, False, True)
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

# Where errors that clients cause are told.
LOGGERS = ("estimand.serving", "asyncio", "grpc", "grpc._cython.cygrpc")
_MOST_KNOWN = 1000
_PLACE = 3  # parts of a key that say where: logger, file, line


@dataclass
class _Told:
    since: float
    name: str
    level: int
    text: str
    shown: int = 0
    hidden: int = 0


class Floods(logging.Filter):
    """Of one text, `most` in so many seconds; of one place, ten times as many.

    Of a place that tells no errors, a hundred times: that is for those who want to see each step.
    """

    def __init__(
        self,
        most: int = 5,
        seconds: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._told: dict[Any, _Told] = {}
        self._lock = threading.Lock()

    def filter(self, record: logging.LogRecord) -> bool:
        if hasattr(record, "is_count"):
            return True
        most_of_place = self._most * (10 if record.levelno >= logging.WARNING else 100)
        place = (record.name, record.pathname, record.lineno)
        text = _text_of(record)
        with self._lock:
            is_shown = self._count((*place, text), self._most, record, text)
            is_shown = is_shown and self._count(place, most_of_place, record, str(record.msg))
        self.tell_counts()
        return is_shown

    def tell_counts(self, at_once: bool = False) -> None:
        """Of those whose time is over: how many were not told."""
        now = self._clock()
        with self._lock:
            over = [
                key
                for key, told in self._told.items()
                if at_once or now - told.since > self._seconds
            ]
            ended = [self._told.pop(key) for key in over]
        for told in ended:
            if told.hidden:
                logging.getLogger(told.name).log(
                    told.level,
                    "%d more like this within %.0f s: %s",
                    told.hidden,
                    now - told.since,
                    told.text,
                    extra={"is_count": True},
                )

    def _count(self, key: Any, most: int, record: logging.LogRecord, text: str) -> bool:
        told = self._told.get(key)
        if told is None:
            if len(self._told) > _MOST_KNOWN:
                self._forget_texts()
            told = _Told(self._clock(), record.name, record.levelno, text)
            self._told[key] = told
        if told.shown < most:
            told.shown += 1
            return True
        told.hidden += 1
        return False

    def _forget_texts(self) -> None:
        """Of one place each: their counts are added to its own."""
        for key in [key for key in self._told if len(key) > _PLACE]:
            told = self._told.pop(key)
            if key[:_PLACE] in self._told:
                self._told[key[:_PLACE]].hidden += told.hidden


def _text_of(record: logging.LogRecord) -> str:
    text = record.getMessage()
    error = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    return (text if error is None else f"{text} ({type(error).__name__}: {error})")[:200]


@contextlib.contextmanager
def limited(names: tuple[str, ...] = LOGGERS) -> Iterator[Floods]:
    floods = Floods()
    for name in names:
        logging.getLogger(name).addFilter(floods)
    try:
        yield floods
    finally:
        for name in names:
            logging.getLogger(name).removeFilter(floods)
        floods.tell_counts(at_once=True)
