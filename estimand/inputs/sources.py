"""What an input function reads from, so that its faults can be explained and its skips counted.

The ready-made input functions note themselves here while they build their Dataset. It works
through any wrapping: a user's own input_fn may call one of them and map over the result.
"""

from __future__ import annotations

import contextlib
import contextvars
import logging
from collections.abc import Iterator
from typing import Protocol

_log = logging.getLogger("tensorflow")

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


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Errors of reading that name file, row and column where batches are read by hand.

    `train`, `evaluate` and `predict` say so by themselves. Whatever is iterated over has to be
    made inside; what was skipped is logged at the end.

    >>> import os, tempfile
    >>> import estimand as est
    >>> path = os.path.join(tempfile.mkdtemp(), "ages.csv")
    >>> _ = open(path, "w").write("age\\n31\\nold\\n")
    >>> read = est.inputs.csv_input_fn(path, column_defaults={"age": int})
    >>> with est.inputs.plain_errors():
    ...     for features in read(mode="eval"):
    ...         print(features)
    Traceback (most recent call last):
      ...
    estimand.core.errors.InputError: csv_input_fn: ...ages.csv, line 3, column 'age': 'old' is ...
    """
    with noting_sources() as sources:
        try:
            yield
        except Exception as error:
            for source in sources:
                explained = source.explain_error(error)
                if explained is not None:
                    raise explained from error
            raise
        finally:
            for source in sources:
                if sentence := source.report_skipped():
                    _log.warning("%s", sentence)
