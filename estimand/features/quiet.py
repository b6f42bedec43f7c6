"""Feature columns are deprecated in TensorFlow; here they are a feature. Hold back the notices."""

from __future__ import annotations

import contextlib
import inspect
import logging
from collections.abc import Callable, Iterator
from typing import Any


class _NoDeprecationNotices(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return "is deprecated and will be removed" not in str(record.msg)


@contextlib.contextmanager
def no_deprecation_notices() -> Iterator[None]:
    """TensorFlow's "is deprecated and will be removed" is not logged inside."""
    logger = logging.getLogger("tensorflow")
    notices = _NoDeprecationNotices()
    logger.addFilter(notices)
    try:
        yield
    finally:
        logger.removeFilter(notices)


def without_notice(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function inside TensorFlow's deprecation wrapper."""
    return inspect.unwrap(function)
