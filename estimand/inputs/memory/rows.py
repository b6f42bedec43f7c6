"""Rows that lie in memory, and the order they are read in: what a Dataset of them can be told by.

A Dataset hands out batches. Whoever reads millions of them may want the tensors themselves, once,
and then only the numbers of the rows that make up each batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.inputs import permutation

_NOTE = "_estimand_rows_in_memory"
# In the place of a row, at the end of a batch that has fewer.
NO_ROW = -1


@dataclasses.dataclass(frozen=True)
class RowsInMemory:
    """Batches of `batch_size` rows of `tensors`, which have the structure of an element.

    `row_at` gives the rows that stand at positions, which are counted over all epochs; there are
    `total` positions (None: no end). `in_order`: each of the first `total` rows stands at the
    position of its number. `numbers` gives 0, 1, 2, … without end.
    """

    tensors: Any
    row_at: Callable[[tf.Tensor], tf.Tensor]
    batch_size: int
    total: int | None
    in_order: bool = False
    numbers: Callable[[], tf.data.Dataset] = dataclasses.field(
        default_factory=permutation.endless_numbers
    )

    def take(self, positions: tf.Tensor) -> Any:
        """The rows that stand at these positions."""
        row = self.row_at(positions)
        return tf.nest.map_structure(lambda tensor: tf.gather(tensor, row), self.tensors)

    @property
    def all_full(self) -> bool:
        return self.total is None or self.total % self.batch_size == 0

    def indices(self, batches: int, first: int = 0) -> tf.data.Dataset:
        """The numbers of the rows from batch `first` on, as arrays of so many `batches`."""
        size = self.batch_size

        @tf.autograph.experimental.do_not_convert
        def chunk(number: tf.Tensor) -> tf.Tensor:
            start = (first + number * batches) * size
            end = start + batches * size
            if self.total is None:
                positions = tf.range(start, end)
                return tf.reshape(tf.cast(self.row_at(positions), tf.int32), [batches, size])
            last = tf.minimum(end, self.total)
            rows = tf.cast(self.row_at(tf.range(start, last)), tf.int32)
            missing = (start - last) % size
            rows = tf.pad(rows, [[0, missing]], constant_values=NO_ROW)
            return tf.reshape(rows, [-1, size])

        if self.total is None:
            return self.numbers().map(chunk)
        count = max(0, -(-self.total // size) - first)
        return tf.data.Dataset.range(-(-count // batches)).map(chunk)


def note_rows(dataset: tf.data.Dataset, rows: RowsInMemory) -> tf.data.Dataset:
    """Note on a Dataset that it gives these rows."""
    setattr(dataset, _NOTE, rows)
    return dataset


def noted_rows(dataset: tf.data.Dataset) -> RowsInMemory | None:
    """What was noted, if anything was."""
    return getattr(dataset, _NOTE, None)
