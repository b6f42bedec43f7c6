"""Who reads with a trace, and whether something is being computed with it right now."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator

_log = logging.getLogger("tensorflow")

_SECONDS_OF_PATIENCE = 10.0


class Usage:
    """Entered (`with usage:`) around each computation; several may go on at the same time.

    >>> usage = Usage()
    >>> with usage.open(), usage:
    ...     usage.is_open
    True
    >>> usage.is_open
    False
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._computing = 0
        self._readers: set[object] = set()

    def __enter__(self) -> None:
        with self._changed:
            self._computing += 1

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._computing -= 1
            self._changed.notify_all()

    @property
    def is_open(self) -> bool:
        """Whether an evaluation or prediction with it has begun and not ended."""
        return bool(self._readers)

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Around an evaluation or prediction; takes no lock, as a generator may end anywhere."""
        reader = object()
        self._readers.add(reader)
        try:
            yield
        finally:
            self._readers.discard(reader)

    @contextlib.contextmanager
    def between_computations(self) -> Iterator[None]:
        """Inside, nothing is computed: what has been begun ends before, what comes waits."""
        with self._changed:
            if not self._changed.wait_for(lambda: not self._computing, _SECONDS_OF_PATIENCE):
                _log.warning(
                    "Waiting for a prediction or evaluation in another thread, which is computing "
                    "or waiting for its input: it uses variables that are about to change."
                )
                self._changed.wait_for(lambda: not self._computing)
            yield
