"""A program: arrays in, arrays out, and what was learned about it by running it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

# Multi-request batches that must give the rows' own answers before batches are believed in.
_CHECKS_AT_FIRST = 3
_CHECK_AGAIN_EVERY = 2000
_FIRST_CALLS = 2  # TensorFlow prepares the graph in them


class Program:
    """A callable of the session, with its cost and whether its rows depend on each other."""

    def __init__(
        self,
        call: Callable[..., list[np.ndarray]],
        *,
        picks: tuple[int, ...] | None = None,
        rows_are_free: bool = False,
        changes_state: bool = False,
    ) -> None:
        self._call = call
        self._picks = picks
        self.rows_are_free = rows_are_free
        self.changes_state = changes_state
        self.mixes_rows = False
        self._calls = 0
        self._batches = 0
        self._seconds = float("inf")
        self._rows = 1.0

    def run(self, arrays: Sequence[np.ndarray], rows: int = 1) -> list[np.ndarray]:
        started = time.perf_counter()
        results = self._call(*arrays)
        self._learn(time.perf_counter() - started, rows)
        if bytes in map(type, results):  # a single string comes without its array
            results = [np.array(r, object) if isinstance(r, bytes) else r for r in results]
        if self._picks is None:
            return results
        return [results[i] if i >= 0 else arrays[i] for i in self._picks]

    def expected_seconds(self, rows: int) -> float:
        """About how long a call with so many rows takes; infinite while nothing is known."""
        return self._seconds * max(1.0, rows / self._rows)

    @property
    def may_batch(self) -> bool:
        """Whether requests may be run together without having been told that they may."""
        return self.rows_are_free and not self.changes_state and not self.mixes_rows

    def next_batch_is_checked(self) -> bool:
        self._batches += 1
        return self._batches <= _CHECKS_AT_FIRST or self._batches % _CHECK_AGAIN_EVERY == 0

    def _learn(self, seconds: float, rows: int) -> None:
        self._calls += 1
        if self._calls <= _FIRST_CALLS:
            self._seconds, self._rows = seconds, float(rows)
        else:
            # On a busy machine single calls take a thousand times as long: they count for little.
            likely = min(seconds, 2 * self._seconds)
            self._seconds += (0.5 if likely < self._seconds else 0.1) * (likely - self._seconds)
            self._rows += 0.1 * (rows - self._rows)


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
