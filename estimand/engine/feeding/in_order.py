"""An input in memory that is read once, from its first row to its last, as evaluations are.

Where its batches are is known without asking a pipeline: each is a slice of the arrays. So none is
made, and its position is the number of batches that were given.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.engine.checkpoints.api import Entry
from estimand.engine.feeding.feeder import Unpack
from estimand.engine.feeding.numbered import NumberedFeeder
from estimand.engine.feeding.supply import Supply
from estimand.inputs.memory.rows import RowsInMemory, noted_rows

_MOST_ROWS = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class RowsInOrder:
    """The first `count` rows of tensors in memory, in the order of an element's parts.

    `batch_size` is None where an element is one row; the last batch need not be full.
    """

    tensors: Sequence[tf.Tensor]
    count: int
    batch_size: int | None = None


def rows_in_order(dataset: tf.data.Dataset) -> RowsInOrder | None:
    """The batches of a Dataset, if these are rows in memory in the order in which they lie there.

    >>> rows = rows_in_order(tf.data.Dataset.from_tensor_slices([10, 11, 12, 13]).take(3).batch(2))
    >>> rows.count, rows.batch_size
    (3, 2)
    >>> rows_in_order(tf.data.Dataset.from_tensor_slices([10, 11, 12]).repeat(2).batch(2)) is None
    True
    """
    rows = _rows(dataset)
    return None if rows is None or rows.batch_size is None else rows


def _rows(dataset: tf.data.Dataset) -> RowsInOrder | None:
    noted = noted_rows(dataset)
    if noted is not None:
        return _noted(noted)
    tensors = tf_private.sliced_tensors(dataset)
    if tensors is not None:
        count = int(dataset.cardinality())
        return RowsInOrder(tensors, count) if tensors and count < _MOST_ROWS else None
    stage = tf_private.stage_of(dataset)
    if len(stage.inputs) != 1:
        return None
    if stage.kind in ("Prefetch", "Options"):
        return _rows(stage.inputs[0])
    if stage.kind == "Take":
        return _first(_rows(stage.inputs[0]), int(dataset.cardinality()))
    size, places = tf_private.size_of_batches_in_order(dataset), tf_private.handed_on(dataset)
    before = None if size is None and places is None else _rows(stage.inputs[0])
    if before is None:
        return None
    if places is not None:
        return dataclasses.replace(before, tensors=[before.tensors[i] for i in places])
    return None if before.batch_size else dataclasses.replace(before, batch_size=size)


def _noted(noted: RowsInMemory) -> RowsInOrder | None:
    tensors = tf.nest.flatten(noted.tensors)
    dense = all(isinstance(tensor, tf.Tensor) for tensor in tensors)
    if not (noted.in_order and dense) or noted.total is None:
        return None
    return RowsInOrder(tensors, noted.total, noted.batch_size)


def _first(rows: RowsInOrder | None, elements: int) -> RowsInOrder | None:
    if rows is None:
        return None
    count = min(rows.count, elements * (rows.batch_size or 1))
    return dataclasses.replace(rows, count=count)


class InOrderFeeder(NumberedFeeder):
    """Gives slices of the arrays."""

    def __init__(
        self, dataset: tf.data.Dataset, unpack: Unpack, *, rows: RowsInOrder, **options: Any
    ) -> None:
        super().__init__(dataset, unpack, **options)
        assert self.size is not None and rows.batch_size is not None
        self._rows_each = rows.batch_size
        self._all_full = self.size * rows.batch_size <= rows.count
        if self._all_full:
            self.batch_size = rows.batch_size
        self._spec = dataset.element_spec
        end = tf.constant(rows.count)
        self._values = [end, *rows.tensors]
        full = [tf.TensorSpec([None, *t.shape[1:]], t.dtype) for t in rows.tensors]
        self._signature = [tf.TensorSpec([], end.dtype), *full]
        self._form = f"in order {rows.batch_size} {self._all_full}"

    def _open(self, dataset: tf.data.Dataset) -> None:
        self.dataset = dataset  # which nobody iterates over

    def supply(self, steps: int) -> Supply:
        if not self.remaining:
            raise tf.errors.OutOfRangeError(None, None, "End of sequence")
        return Supply(
            self._form,
            self._signature,
            self._values,
            self._draw,
            steps=min(steps, self.remaining),
            first=self.batches,
            by_number=True,
        )

    def _draw(self, given: Sequence[tf.Tensor], number: tf.Tensor) -> list[tf.Tensor]:
        end, *tensors = given
        start = number * self._rows_each
        size = self._rows_each if self._all_full else tf.minimum(self._rows_each, end - start)
        parts = [
            tf.slice(t, [start, *[0] * (t.shape.rank - 1)], [size, *t.shape[1:]]) for t in tensors
        ]
        return self.flatten(tf.nest.pack_sequence_as(self._spec, parts))

    # Its position

    def position(self, external_state_policy: int) -> list[Entry] | None:
        del external_state_policy
        return None  # that is noted anyway

    def pass_over(self, batches: int) -> None:
        self.stands_after(batches)
