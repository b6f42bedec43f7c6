"""What a run tells: lines of the logger `estimand`, which appear also where nobody listens.

An application that has configured logging gets them where it wants them. Otherwise a handler of
our own writes them to stderr while a run is going on; in a notebook, to stdout.

>>> import logging
>>> logging.getLogger("estimand").setLevel("WARNING")  # says nothing but warnings
>>> logging.getLogger("estimand").setLevel("NOTSET")
"""

from __future__ import annotations

import collections
import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO

# What a line is about, where something else may show the same.
PROGRESS, SAVED, EVALUATION = "progress", "saved", "evaluation"

_log = logging.getLogger("estimand")
# Programs written for tf.estimator ask this one for its lines, which tell the same.
_lines_of_old = logging.getLogger("tensorflow")
_shown_elsewhere: collections.Counter[str] = collections.Counter()


def tell(message: str, *args: Any, about: str = "") -> None:
    """Log a line of a run."""
    _log.info(message, *args, extra={"about": about})


@contextlib.contextmanager
def _without_lines_of_old() -> Iterator[None]:
    """In notebooks TensorFlow asks for its lines by itself: hundreds, which tell the same."""
    level = _lines_of_old.level
    if level != logging.INFO or not in_notebook() or is_verbose():
        yield
        return
    _lines_of_old.setLevel(logging.WARNING)
    try:
        yield
    finally:
        _lines_of_old.setLevel(level)


@contextlib.contextmanager
def speaking(wanted: bool = True) -> Iterator[bool]:
    """Inside, lines appear somewhere; gives whether it is up to us where."""
    with _without_lines_of_old(), _heard(wanted) as ours:
        yield ours


@contextlib.contextmanager
def _heard(wanted: bool) -> Iterator[bool]:
    if not wanted or _log.hasHandlers() or _lines_of_old.isEnabledFor(logging.INFO):
        yield any(isinstance(handler, _OwnHandler) for handler in _log.handlers)
        return
    handler, level = _OwnHandler(), _log.level
    _log.addHandler(handler)
    if level == logging.NOTSET:
        _log.setLevel(logging.INFO)
    try:
        yield True
    finally:
        _log.removeHandler(handler)
        _log.setLevel(level)


@contextlib.contextmanager
def showing(*about: str) -> Iterator[None]:
    """Inside, a live line, bar or table shows these: our own handler leaves their lines out."""
    _shown_elsewhere.update(about)
    try:
        yield
    finally:
        _shown_elsewhere.subtract(about)


def is_verbose() -> bool:
    """Whether what TensorFlow prints by itself is wanted: nobody asks for it by default."""
    return bool(os.environ.get("ESTIMAND_VERBOSE")) or "TF_CPP_MIN_LOG_LEVEL" in os.environ


def in_notebook() -> bool:
    """Whether this is a kernel that displays HTML."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and hasattr(ipython.get_ipython(), "kernel")


class _OwnHandler(logging.StreamHandler[TextIO]):
    """Writes to what is stderr at the moment: the live line puts another stream in its place."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)
        self.setFormatter(_Formatter("%(asctime)s %(message)s", "%H:%M:%S"))

    def filter(self, record: logging.LogRecord) -> Any:
        return _shown_elsewhere[getattr(record, "about", "")] <= 0 and super().filter(record)

    @property
    def stream(self) -> Any:
        return sys.stdout if in_notebook() else sys.stderr


class _Formatter(logging.Formatter):
    def formatMessage(self, record: logging.LogRecord) -> str:
        if record.levelno > logging.INFO:
            record.message = f"{record.levelname.lower()}: {record.message}"
        return super().formatMessage(record)
