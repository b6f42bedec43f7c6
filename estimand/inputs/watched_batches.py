"""Batches that Python code gives, and how it failed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from estimand.core.errors import InputError


class WatchedBatches:
    """What an input function's own Python code gives; remembers how it failed.

    TensorFlow passes on an exception of Python code as text only.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._failure: tuple[Exception, int] | None = None

    def watch(self, batches: Iterator[Any]) -> Iterator[Any]:
        count = 0
        try:
            for count, batch in enumerate(batches, 1):  # noqa: B007 - where it stopped
                yield batch
        except Exception as error:
            self._failure = error, count
            raise

    def explain_error(self, error: BaseException) -> Exception | None:
        del error
        if self._failure is None:
            return None
        failure, count = self._failure
        if isinstance(failure, InputError):
            return failure
        text = failure.message if isinstance(failure, tf.errors.OpError) else str(failure)
        text = text.split("\n\t [[")[0]  # the ops of a graph that nobody has seen
        told = InputError(
            f"{self._where} raised {type(failure).__name__} after {count} batches: {text}"
        )
        told.__cause__ = failure
        return told

    def report_skipped(self) -> str | None:
        return None
