"""What an input function reads from, so that its faults can be explained and its skips counted.

The ready-made input functions note themselves here while they build their Dataset. It works
through any wrapping: a user's own input_fn may call one of them and map over the result.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Protocol

_noting: contextvars.ContextVar[list[Source] | None] = contextvars.ContextVar(
    "estimand_input_sources", default=None
)


class Source(Protocol):
    """Files, tables or folders that a Dataset was built from."""

    def explain_error(self, error: BaseException) -> Exception | None:
        """The error to raise in place of `error`, naming file, row and column; None: not ours.

        Called after reading failed. It may read the data again to find the place: nothing is
        to be done for this while all is well.
        """

    def report_skipped(self) -> str | None:
        """One sentence on what was left out since the last call; None when nothing was."""


def note_source(source: Source) -> None:
    """Tell whoever is calling the input function that its Dataset reads from `source`."""
    noted = _noting.get()
    if noted is not None:
        noted.append(source)


@contextlib.contextmanager
def noting_sources() -> Iterator[list[Source]]:
    """Collect the sources noted inside."""
    token = _noting.set([])
    try:
        sources = _noting.get()
        assert sources is not None
        yield sources
    finally:
        _noting.reset(token)
