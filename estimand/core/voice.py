"""What a run tells: lines of the logger `estimand`, which appear also where nobody listens.

An application that has configured logging gets them where it wants them. Otherwise a handler of
our own writes them to stderr while a run is going on; in a notebook, to stdout. Programs that
ask for the lines of tf.estimator (see `lines_of_old`) get those instead, and those that want to
hear of its errors only, none.

>>> import logging
>>> logging.getLogger("estimand").setLevel("WARNING")  # says nothing but warnings
>>> logging.getLogger("estimand").setLevel("NOTSET")
"""

from __future__ import annotations

import collections
import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from estimand.core import lines_of_old

# What a line is about, where something else may show the same.
PROGRESS, SAVED, EVALUATION = "progress", "saved", "evaluation"

_log = logging.getLogger("estimand")
_shown_elsewhere: collections.Counter[str] = collections.Counter()
_aside: _OwnHandler | None = None


def tell(message: str, *args: Any, about: str = "") -> None:
    """Log a line of a run."""
    extra = {"about": about}
    if _aside is not None:
        place = _log.findCaller(stacklevel=2)[:2]
        record = _log.makeRecord(_log.name, logging.INFO, *place, message, args, None, extra=extra)
        _aside.handle(record)
    elif not lines_of_old.are_preferred() or _is_configured():
        _log.info(message, *args, extra=extra, stacklevel=2)


@contextlib.contextmanager
def speaking(wanted: bool = True) -> Iterator[bool]:
    """Inside, lines appear somewhere; gives whether it is up to us where."""
    with lines_of_old.in_order(), _heard(wanted) as ours:
        yield ours


@contextlib.contextmanager
def _heard(wanted: bool) -> Iterator[bool]:
    if _aside is not None or any(isinstance(handler, _OwnHandler) for handler in _log.handlers):
        yield True  # by whoever called us
    elif not wanted:
        yield False
    elif lines_of_old.are_refused() and not _is_configured():
        with _at_level(lines_of_old.level()):
            yield False
    elif _log.hasHandlers():
        with _speaking_aside(_listens_only_to_warnings()) as ours:
            yield ours
    elif lines_of_old.are_asked_for():
        yield False
    else:
        with _with_handler_of_our_own():
            yield True


def _is_configured() -> bool:
    """Whether somebody has given this very logger a level or a handler."""
    return _log.level != logging.NOTSET or bool(_log.handlers)


def _listens_only_to_warnings() -> bool:
    """Whether the root has a handler, and the level that it has before anybody sets one.

    `logging.warning(...)` in any library is enough for that: nobody has decided on our lines.
    """
    undecided = lines_of_old.root_of(_log).level == logging.WARNING and not _is_configured()
    switched_off = _log.disabled or _log.manager.disable >= logging.INFO
    return undecided and not switched_off and not lines_of_old.are_asked_for()


@contextlib.contextmanager
def _with_handler_of_our_own() -> Iterator[None]:
    handler = _OwnHandler()
    _log.addHandler(handler)
    try:
        with _at_level(_log.level or logging.INFO):
            yield
    finally:
        _log.removeHandler(handler)


@contextlib.contextmanager
def _at_level(wanted: int) -> Iterator[None]:
    level = _log.level
    _log.setLevel(wanted)
    try:
        yield
    finally:
        _log.setLevel(level)


@contextlib.contextmanager
def _speaking_aside(really: bool) -> Iterator[bool]:
    """Our lines do not pass by handlers that get warnings only, which stay with them."""
    global _aside
    _aside = _OwnHandler() if really else None
    try:
        yield really
    finally:
        _aside = None


@contextlib.contextmanager
def showing(*about: str) -> Iterator[None]:
    """Inside, a live line, bar or table shows these: our own handler leaves their lines out."""
    _shown_elsewhere.update(about)
    try:
        yield
    finally:
        _shown_elsewhere.subtract(about)


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
