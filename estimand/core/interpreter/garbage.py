"""When Python looks for reference cycles among its objects, and when it had better not."""

from __future__ import annotations

import contextlib
import gc
import threading
from collections.abc import Iterator

_lock = threading.Lock()
_builders = 0
_was_enabled = False


@contextlib.contextmanager
def left_alone() -> Iterator[None]:
    """Inside, nobody looks for cycles.

    A graph is tens of thousands of objects that stay. While they are made, Python goes through
    them again and again, for a model of many columns through all that TensorFlow has imported as
    well, and finds next to nothing. Afterwards it goes through them once. Threads may overlap;
    whoever has switched it off finds it off.

    >>> with left_alone():
    ...     gc.isenabled()
    False
    >>> gc.isenabled()
    True
    """
    global _builders, _was_enabled
    with _lock:
        if not _builders:
            _was_enabled = gc.isenabled()
            gc.disable()
        _builders += 1
    try:
        yield
    finally:
        with _lock:
            _builders -= 1
            if not _builders and _was_enabled:
                gc.enable()
