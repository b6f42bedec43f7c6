"""Pipelines that are built here and run in other processes, which do not have this one's code."""

from __future__ import annotations

import contextlib
import contextvars
import logging
from collections.abc import Iterator

_log = logging.getLogger("tensorflow")
_elsewhere = contextvars.ContextVar("pipelines_run_elsewhere", default=False)


@contextlib.contextmanager
def pipelines_run_elsewhere() -> Iterator[None]:
    """Around the call of an input function whose pipeline is sent to other processes.

    >>> with pipelines_run_elsewhere():
    ...     runs_elsewhere()
    True
    >>> runs_elsewhere()
    False
    """
    token = _elsewhere.set(True)
    try:
        yield
    finally:
        _elsewhere.reset(token)


def runs_elsewhere() -> bool:
    """Whether the pipeline that is being built must do without Python code of this process."""
    return _elsewhere.get()


def warn_if_not_counted(where: str, what: str) -> None:
    """What is left out in other processes is not counted in this one; say so, once per call."""
    if runs_elsewhere():
        _log.warning(
            "%s(on_error='skip'): the pipeline runs in other processes, where broken %s are left "
            "out without being counted. on_error='raise' would stop at the first.",
            where,
            what,
        )
