"""What a training loop knows of its input, whoever reads it: how much was taken, and is left."""

from __future__ import annotations

from typing import Protocol


class StepsTogether(Protocol):
    """Processes that read an input each, and take their steps together."""

    def least(self, value: int | None) -> int | None: ...


class BatchSource:
    """Counts what steps take: one batch for each of the `replicas` at a time.

    Where the input stands, which a resumed run goes on from, rests on this count. So it is changed
    here alone: whoever runs steps says how many took a batch.

    >>> source = BatchSource(size=10)
    >>> source.took(3)
    >>> source.batches, source.remaining
    (3, 7)

    Args:
      size: how many batches there are in all; None: unknown, or without end.
      replicas: how many batches of the input one step takes.
      left_over: batches at the end that are not enough for all replicas.
    """

    def __init__(self, size: int | None, *, replicas: int = 1, left_over: int = 0) -> None:
        self.replicas = replicas
        self.size = size
        self.left_over = left_over
        self._batches = 0

    @property
    def batches(self) -> int:
        """How many were taken, from the start of the input."""
        return self._batches

    @property
    def remaining(self) -> int | None:
        return None if self.size is None else max(0, self.size - self._batches)

    def took(self, batches: int = 1) -> None:
        """So many more were taken."""
        self._batches += batches

    def stands_after(self, batches: int) -> None:
        """So many were taken in all, by this run or by those that it continues."""
        self._batches = batches

    def agree(self, team: StepsTogether) -> None:
        """Before the first step of several processes: all end with the first that has to."""
        mine = self.remaining
        remaining = team.least(mine)
        if remaining is not None:
            if mine is not None:
                self.left_over += (mine - remaining) * self.replicas
            self.size = self._batches + remaining
