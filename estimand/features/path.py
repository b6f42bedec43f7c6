"""Which way categorical columns take: dense ids where possible, or always TensorFlow's own."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator

_fast = contextvars.ContextVar("estimand_fast_columns", default=True)


def fast_path_enabled() -> bool:
    """Whether single-valued categorical features are looked up by dense ids."""
    return _fast.get()


@contextlib.contextmanager
def fast_path(enabled: bool) -> Iterator[None]:
    """Choose the way for the columns that are built inside; the numbers are the same.

    >>> with fast_path(False):
    ...     fast_path_enabled()
    False
    """
    token = _fast.set(enabled)
    try:
        yield
    finally:
        _fast.reset(token)
