"""A program: arrays in, arrays out, and what was learned about it by running it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from estimand.serving.status import invalid

# Multi-request batches that must give the rows' own answers before batches are believed in.
_CHECKS_AT_FIRST = 3
_CHECK_AGAIN_EVERY = 2000
_FIRST_CALLS = 2  # TensorFlow prepares the graph in them
# Longer than what is run in the event loop itself.
NEVER_INLINE_SECONDS = 0.003
_ABOUT = 1.25  # times as wide is about as wide


@dataclass(frozen=True)
class JoinableShapes:
    """That requests may be joined, if their inputs have these sizes after the first.

    -1 stands for any; None for whatever it is, where somebody has said so who has to know.
    """

    shapes: tuple[tuple[int, ...], ...] | None = None

    def allow(self, arrays: Sequence[np.ndarray]) -> bool:
        """
        >>> joins = JoinableShapes(((3,),))
        >>> joins.allow([np.zeros([2, 3])]), joins.allow([np.zeros([2])])
        (True, False)
        """
        if self.shapes is None:
            return True
        return all(
            len(shape) == array.ndim - 1 and all(map(_fits, shape, array.shape[1:]))
            for shape, array in zip(self.shapes, arrays, strict=True)
        )


def _fits(wanted: int, given: int) -> bool:
    return wanted in (-1, given)


class Program:
    """A callable of the session, with its cost and whether requests for it may be joined.

    `may_wait`: a call may take any time, whatever others took.
    """

    def __init__(
        self,
        call: Callable[..., list[np.ndarray]],
        *,
        picks: tuple[int, ...] | None = None,
        joins: JoinableShapes | None = None,
        changes_state: bool = False,
        may_wait: bool = False,
    ) -> None:
        self._call = call
        self._picks = picks
        self.joins = joins
        self.changes_state = changes_state
        self.may_wait = may_wait
        self.mixes_rows = False
        self._shortest = NEVER_INLINE_SECONDS if may_wait else 0.0
        self._calls = 0
        self._batches = 0
        self._seconds: dict[int, float] = {}  # by the number of bits of the number of rows
        # By the same: how much a row had, at most, in a call that was quick.
        self._widths: dict[int, float] = {}

    def run(self, arrays: Sequence[np.ndarray], rows: int = 1) -> list[np.ndarray]:
        started = time.perf_counter()
        try:
            results = self._call(*arrays)
        except UnicodeDecodeError as error:  # of TensorFlow's message, which quotes the request
            raise invalid(error.object.decode("utf-8", "replace")) from error
        self._learn(time.perf_counter() - started, rows, arrays)
        if bytes in map(type, results):  # a single string comes without its array
            results = [np.array(r, object) if isinstance(r, bytes) else r for r in results]
        if self._picks is None:
            return results
        return [results[i] if i >= 0 else arrays[i] for i in self._picks]

    def expected_seconds(self, rows: int) -> float:
        """About how long a call with so many rows takes; infinite while nothing is known."""
        measured = self._seconds.get(rows.bit_length())
        return self._guess(rows) if measured is None else measured

    def knows_size(self, arrays: Sequence[np.ndarray], rows: int) -> bool:
        """Whether `expected_seconds` is true of them: rows that are wider than any that were quick
        may take any time."""
        width = self._widths.get(rows.bit_length())
        if width is None:
            width = min(self._widths.values(), default=0.0)
        most = _ABOUT * width * (rows or 1)
        if sum([array.size for array in arrays]) > most:
            return False
        return not any([array.dtype.hasobject for array in arrays]) or _size(arrays) <= most

    def _guess(self, rows: int) -> float:
        """From calls with other numbers of rows: more take longer, but not per row."""
        known = list(self._seconds.items())  # threads add to them
        larger = [seconds for bits, seconds in known if bits > rows.bit_length()]
        smaller = [seconds * rows / 2 ** max(bits - 1, 0) for bits, seconds in known]
        return min(larger + smaller, default=float("inf"))

    @property
    def may_batch(self) -> bool:
        """Whether requests may be run together without having been told that they may."""
        return self.joins is not None and not self.changes_state and not self.mixes_rows

    def next_batch_is_checked(self) -> bool:
        self._batches += 1
        return self._batches <= _CHECKS_AT_FIRST or self._batches % _CHECK_AGAIN_EVERY == 0

    def _learn(self, seconds: float, rows: int, arrays: Sequence[np.ndarray]) -> None:
        self._calls += 1
        seconds = max(seconds, self._shortest)
        bits = rows.bit_length()
        if seconds < NEVER_INLINE_SECONDS:
            width = _size(arrays) / (rows or 1)
            if width > self._widths.get(bits, -1.0):
                self._widths[bits] = width
        before = self._seconds.get(bits)
        if self._calls <= _FIRST_CALLS:
            self._seconds = {bits: seconds}
        elif before is None or seconds < before:
            self._seconds[bits] = seconds
        else:
            # On a busy machine most calls are interrupted, and the shortest ones tell the truth.
            self._seconds[bits] = before + 0.02 * (min(seconds, 2 * before) - before)


def _size(arrays: Sequence[np.ndarray]) -> int:
    """Values, or bytes where these are what is worked on.

    >>> _size([np.zeros([2, 3]), np.array([b"four"], object)])
    10
    """
    size = 0
    for array in arrays:
        size += sum(map(len, array.ravel().tolist())) if array.dtype.hasobject else array.size
    return size


def same_rows(left: Sequence[np.ndarray], right: Sequence[np.ndarray]) -> bool:
    """Whether two answers are the same, up to what another order of additions explains.

    >>> same_rows([np.float32([1.0])], [np.float32([1.0000001])])
    True
    >>> same_rows([np.float32([1.0])], [np.float32([1.1])])
    False
    """
    return len(left) == len(right) and all(map(_same, left, right))


def _same(left: np.ndarray, right: np.ndarray) -> bool:
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    if left.dtype.kind not in "fc":
        return bool(np.array_equal(left, right))
    tolerance = 64 * float(np.finfo(left.dtype).eps)
    scale = float(np.max(np.abs(right), initial=0.0, where=np.isfinite(right)))
    return bool(np.allclose(left, right, tolerance**0.75, tolerance * scale, equal_nan=True))
