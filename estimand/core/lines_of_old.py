"""The lines of tf.estimator, of the logger `tensorflow`, which tell what those of `estimand` tell.

Programs written for tf.estimator ask for them, and get them: once, and in the place of ours.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any

_log = logging.getLogger("tensorflow")


def are_asked_for() -> bool:
    """Whether they appear where nobody has configured logging."""
    return _log.isEnabledFor(logging.INFO)


def are_preferred() -> bool:
    """Whether somebody has set this very logger to show them."""
    return logging.NOTSET < _log.level <= logging.INFO


def are_refused() -> bool:
    """Whether a program wants errors only: `tf.logging.set_verbosity(tf.logging.ERROR)`.

    By itself TensorFlow never sets such a level.
    """
    return _log.level >= logging.ERROR


def level() -> int:
    return _log.level


@contextlib.contextmanager
def in_order() -> Iterator[None]:
    """Inside, they appear once, and only if somebody has asked for them."""
    with held_back(), written_once():
        yield


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """In notebooks and shells TensorFlow asks for them by itself: hundreds, and nobody else did."""
    level = _log.level
    if level != logging.INFO or not _is_interactive() or is_verbose():
        yield
        return
    _log.setLevel(logging.WARNING)
    try:
        yield
    finally:
        _log.setLevel(level)


@contextlib.contextmanager
def written_once() -> Iterator[None]:
    """Inside, TensorFlow's own handler leaves out what one of the root writes to the same place.

    It has one unless the root had been given another before TensorFlow was imported; absl's
    `app.run`, and `tf.compat.v1.app.run`, give the root one after that.
    """
    changed = [h for h in _log.handlers if _ONLY_IF_NOBODY_ELSE not in h.filters]
    for handler in changed:
        handler.addFilter(_ONLY_IF_NOBODY_ELSE)
    try:
        yield
    finally:
        for handler in changed:
            handler.removeFilter(_ONLY_IF_NOBODY_ELSE)


def is_verbose() -> bool:
    """Whether what TensorFlow prints by itself is wanted: nobody asks for it by default."""
    level = os.environ.get("TF_CPP_MIN_LOG_LEVEL", "")
    return bool(os.environ.get("ESTIMAND_VERBOSE")) or level in ("0", "1")


def root_of(logger: logging.Logger) -> logging.Logger:
    while logger.parent is not None:
        logger = logger.parent
    return logger


def stream_of(handler: logging.Handler) -> Any:
    """What it writes to; absl's handler has another inside. None: to no stream."""
    inner = getattr(handler, "python_handler", handler)
    return getattr(inner, "stream", None)


class _OnlyIfNobodyElse(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        root = root_of(_log).handlers if _log.propagate else []
        elsewhere = [stream for handler in root if (stream := stream_of(handler)) is not None]
        ours = [stream_of(handler) for handler in _log.handlers if self in handler.filters]
        return not any(mine is theirs for mine in ours for theirs in elsewhere)


_ONLY_IF_NOBODY_ELSE = _OnlyIfNobodyElse()


def _is_interactive() -> bool:
    """As TensorFlow asks it."""
    return hasattr(sys, "ps1") or bool(sys.flags.interactive)
