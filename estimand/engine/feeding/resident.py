"""An input that lies in memory: batches are taken by the numbers of their rows.

A pipeline moves each row by itself, from stage to stage, which for a small model costs more than
the model. What the stages of `from_tensor_slices(...).shuffle(...).repeat().batch(...)` do does
not depend on what the rows hold: the same stages, with the same seeds, over the numbers of the
rows give the same order. So the arrays stay where they are, the numbers of many batches come at
once, and a step gathers its rows.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import CheckpointError
from estimand.engine.checkpoints.api import Entry, Wanted, read_tensors
from estimand.engine.feeding.feeder import Feeder, Unpack
from estimand.engine.feeding.in_order import InOrderFeeder, RowsInOrder, rows_in_order
from estimand.engine.feeding.numbered import NumberedFeeder
from estimand.engine.feeding.supply import Supply
from estimand.inputs.memory.rows import NO_ROW, RowsInMemory, noted_rows

# Numbers of rows that are taken from the pipeline at once. Those not used yet become part of a
# saved position, so not too many.
_ROWS_AT_ONCE = 2**14
_MOST_BATCHES_AT_ONCE = 1000
# Larger batches are better copied ahead of the step, by the threads of the pipeline.
_LARGEST_BATCH = 2**20  # bytes
_AHEAD = "ahead"
_AT_ONCE = "at_once"
_NOTE = "_estimand_rows"


@dataclasses.dataclass(frozen=True)
class Rows:
    """Tensors in memory, in the order of an element's parts, and which of their rows come when.

    `chunks` gives the numbers of rows for so many batches at once. `batch_size` is None where an
    element is one row; not all batches need be full.
    """

    tensors: Sequence[tf.Tensor]
    chunks: Callable[[int], tf.data.Dataset]
    batch_size: int | None
    all_full: bool


def rows_of(dataset: tf.data.Dataset) -> Rows | RowsInOrder | None:
    """What a Dataset gives, if it all lies in memory and nothing but its order is computed.

    >>> data = tf.data.Dataset.from_tensor_slices([10, 11, 12, 13, 14]).shuffle(3, seed=1).batch(2)
    >>> rows = rows_of(data)
    >>> numbers = next(iter(rows.chunks(9)))
    >>> taken = [tf.gather(rows.tensors[0], r[r >= 0]).numpy().tolist() for r in numbers]
    >>> taken == [batch.tolist() for batch in data.as_numpy_iterator()]
    True
    """
    if int(dataset.cardinality()) == tf.data.UNKNOWN_CARDINALITY:
        return None
    rows = rows_in_order(dataset) or _noted(dataset, 0) or _staged(dataset)
    if rows is None:
        return None
    size = sum(t.shape[1:].num_elements() * t.dtype.size for t in rows.tensors)
    return rows if size * (rows.batch_size or 1) <= _LARGEST_BATCH else None


def _noted(dataset: tf.data.Dataset, skipped: int) -> Rows | None:
    """Of an input function that notes what it reads."""
    noted: RowsInMemory | None = noted_rows(dataset)
    if noted is not None:
        tensors = tf.nest.flatten(noted.tensors)
        dense = all(isinstance(tensor, tf.Tensor) for tensor in tensors)
        chunks = functools.partial(noted.indices, first=skipped)
        return Rows(tensors, chunks, noted.batch_size, noted.all_full) if dense else None
    stage = tf_private.stage_of(dataset)
    if stage.kind in ("Prefetch", "Options"):
        return _noted(stage.inputs[0], skipped)
    if stage.kind == "Skip":
        return _noted(stage.inputs[0], skipped + int(stage.settings["_count"]))
    return None


def _staged(dataset: tf.data.Dataset) -> Rows | None:
    """Of a pipeline whose stages do nothing to a row."""
    numbers = _numbers(dataset)
    return None if numbers is None else _in_chunks(numbers)


@dataclasses.dataclass(frozen=True)
class _Numbers:
    """The numbers of the rows that a stage gives, singly or in batches of up to `size`."""

    tensors: tuple[tf.Tensor, ...]
    indices: tf.data.Dataset
    size: int | None = None


def _numbers(dataset: tf.data.Dataset) -> _Numbers | None:
    # Kept with each stage: a `shuffle` that is iterated over again, be it in another pipeline that
    # begins with it, shuffles anew, and so must this.
    if not hasattr(dataset, _NOTE):
        setattr(dataset, _NOTE, _numbers_of(dataset))
    return getattr(dataset, _NOTE)


def _numbers_of(dataset: tf.data.Dataset) -> _Numbers | None:
    tensors = tf_private.sliced_tensors(dataset)
    if tensors is not None:
        length = int(dataset.cardinality())
        indices = tf.data.Dataset.range(length, output_type=tf.int32)
        return _Numbers(tensors, indices) if tensors and length < 2**31 else None
    stage = tf_private.stage_of(dataset)
    before = _numbers(stage.inputs[0]) if len(stage.inputs) == 1 else None
    if before is None:
        return None
    places = tf_private.handed_on(dataset)
    if places is not None:
        return dataclasses.replace(before, tensors=tuple(before.tensors[i] for i in places))
    indices = tf_private.same_stage(dataset, before.indices)
    size = stage.settings.get("_batch_size", before.size)
    return None if indices is None else _Numbers(before.tensors, indices, size)


def _in_chunks(numbers: _Numbers) -> Rows | None:
    tensors, indices, size = numbers.tensors, numbers.indices, numbers.size
    shape = indices.element_spec.shape
    if shape.rank == 0:
        return Rows(tensors, indices.batch, None, all_full=True)
    if shape.rank != 1 or size is None:
        return None
    if size in (shape[0], tf_private.full_batch_size(indices)):
        return Rows(tensors, indices.batch, size, all_full=True)
    missing = tf.constant(NO_ROW, tf.int32)

    def chunks(batches: int) -> tf.data.Dataset:
        return indices.padded_batch(batches, padded_shapes=[size], padding_values=missing)

    return Rows(tensors, chunks, size, all_full=False)


def open_feeder(dataset: tf.data.Dataset, unpack: Unpack, **options: Any) -> Feeder:
    """A feeder of the input: of its rows where they lie in memory, else of its batches."""
    rows = rows_of(dataset) if options.get("replicas", 1) == 1 else None
    if rows is None:
        return Feeder(dataset, unpack, **options)
    if isinstance(rows, RowsInOrder):
        return InOrderFeeder(dataset, unpack, rows=rows, **options)
    return ResidentFeeder(dataset, unpack, rows=rows, **options)


class ResidentFeeder(NumberedFeeder):
    """Gives the numbers of rows, for many batches at a time, and the arrays that they are of."""

    def __init__(
        self, dataset: tf.data.Dataset, unpack: Unpack, *, rows: Rows, **options: Any
    ) -> None:
        self._rows = rows
        self._at_once = max(1, min(_MOST_BATCHES_AT_ONCE, _ROWS_AT_ONCE // (rows.batch_size or 1)))
        super().__init__(dataset, unpack, **options)
        self._spec = dataset.element_spec
        if rows.all_full:
            self.batch_size = rows.batch_size
        self._chunk: tf.Tensor | None = None  # that the next batch is in
        self._chunk_begins = self._chunk_ends = 0  # in batches
        full = [tf.TensorSpec([None, *t.shape[1:]], t.dtype) for t in rows.tensors]
        each = [] if rows.batch_size is None else [rows.batch_size]
        self._signature = [tf.TensorSpec([self._at_once, *each], tf.int32), *full]
        self._form = f"rows {self._at_once} {rows.batch_size} {rows.all_full}"

    def _pipeline(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        options = tf.data.Options()
        options.experimental_optimization.inject_prefetch = False
        options.autotune.enabled = False
        return self._rows.chunks(self._at_once).prefetch(1).with_options(options)

    def supply(self, steps: int) -> Supply:
        if self._chunk is None or self.batches >= self._chunk_ends:
            self._hold(self.iterator.get_next())
        return Supply(
            self._form,
            self._signature,
            [self._chunk, *self._rows.tensors],
            self._draw,
            steps=min(steps, self._chunk_ends - self.batches),
            first=self.batches - self._chunk_begins,
            by_number=True,
        )

    def _hold(self, numbers: tf.Tensor) -> None:
        """The next batches are those of these numbers."""
        count = int(numbers.shape[0])
        self._chunk_begins, self._chunk_ends = self.batches, self.batches + count
        if count < self._at_once:  # functions are compiled for one shape
            more = [[0, self._at_once - count], *([[0, 0]] * (numbers.shape.rank - 1))]
            numbers = tf.pad(numbers, more)
        self._chunk = numbers

    def _draw(self, given: Sequence[tf.Tensor], number: tf.Tensor) -> list[tf.Tensor]:
        chunk, *tensors = given
        rows = tf.gather(chunk, number)
        if not self._rows.all_full:
            rows = rows[: tf.reduce_sum(tf.cast(tf.not_equal(rows, NO_ROW), tf.int32))]
        gathered = [tf.gather(tensor, rows) for tensor in tensors]
        return self.flatten(tf.nest.pack_sequence_as(self._spec, gathered))

    # Its position: that of the pipeline of numbers, and the numbers that were taken from it and
    # not used yet.

    kind = "rows"

    def position(self, external_state_policy: int) -> list[Entry] | None:
        pipeline = super().position(external_state_policy)
        if pipeline is None:
            return None
        if self._chunk is None:
            ahead = tf.zeros([0, *self._signature[0].shape[1:]], tf.int32)
        else:
            begin, end = self.batches - self._chunk_begins, self._chunk_ends - self._chunk_begins
            ahead = self._chunk[begin:end]
        numbers = [Entry(_AHEAD, ahead), Entry(_AT_ONCE, tf.constant(self._at_once))]
        return [*pipeline, *numbers]

    def pass_over(self, batches: int) -> None:
        whole, rest = divmod(batches, self._at_once)
        super().pass_over(whole)
        self.stands_after(whole * self._at_once)
        if rest:
            self._hold(self.iterator.get_next())
        self.stands_after(batches)

    def go_to(self, prefix: str, batches: int, *, try_out: bool) -> None:
        shape = (None, *self._signature[0].shape[1:])
        wanted = [Wanted(_AHEAD, tf.int32, shape), Wanted(_AT_ONCE, tf.int32, ())]
        ahead, at_once = read_tensors(prefix, wanted)
        if int(at_once) != self._at_once:
            raise CheckpointError(f"{int(at_once)} batches at once, here {self._at_once}")
        super().go_to(prefix, batches, try_out=try_out)
        self._hold(ahead)
