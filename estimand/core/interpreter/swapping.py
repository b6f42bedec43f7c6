"""Functions of TensorFlow and Keras that are replaced for a while, and put back.

What is replaced is replaced for the whole process: two threads that did so at the same time would
take each other's replacement for the original, and leave it in place for good. So there is one
lock for all of it, and one thread at a time has the right to replace anything.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

# (owner, name, what to make of the original)
Swap = tuple[Any, str, Callable[[Any], Any]]

_lock = threading.RLock()


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Inside, no other thread changes through here what the whole process shares."""
    with _lock:
        yield


@contextlib.contextmanager
def swapped(swaps: Iterable[Swap]) -> Iterator[None]:
    """Inside, attributes of foreign objects are others; blocks of one thread may be nested.

    >>> class Foreign:
    ...     answer = 42
    >>> with swapped([(Foreign, "answer", lambda original: original + 1)]):
    ...     Foreign.answer
    43
    >>> Foreign.answer
    42
    """
    with alone(), contextlib.ExitStack() as stack:
        for owner, name, make in swaps:
            original = getattr(owner, name)
            stack.callback(setattr, owner, name, original)
            setattr(owner, name, make(original))
        yield
