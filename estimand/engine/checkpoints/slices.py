"""Rows of a large variable, a slice at a time: what nobody could hold, nobody has to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from estimand.core.errors import CheckpointError
from estimand.core.files import bundle
from estimand.engine.checkpoints.fitting import Wanted
from estimand.engine.checkpoints.publishing import Entry
from estimand.engine.checkpoints.reader import read_tensors

# What a reader has to hold that wants other slices than these.
MOST_BYTES = 64 * 2**20


def row_slices(shape: Sequence[int], dtype: tf.DType, most: int) -> list[tuple[int, int]]:
    """First row and number of rows of slices of at most so many bytes; one, if it is small."""
    rows = shape[0] if shape else 1
    size = tf.TensorShape(shape).num_elements() * dtype.size
    count = max(1, int(rows * most / max(size, 1)))
    if count >= rows:
        return [(0, rows)]
    return [(start, min(count, rows - start)) for start in range(0, rows, count)]


def spec_of_rows(whole: Sequence[int], start: int, count: int) -> str:
    """As in `Entry`."""
    return f"{' '.join(map(str, whole))} {start},{count}{':-' * (len(whole) - 1)}"


@dataclass(frozen=True)
class InSlices:
    """A variable of a checkpoint that is to be read a slice at a time."""

    path: str
    wanted: Wanted
    shape: tf.TensorShape
    dtype: tf.DType

    def entries(self, name: str) -> Iterator[Entry]:
        """The slices, each to be written under a name before the next is read."""
        whole = self.shape.as_list()
        for start, count in row_slices(whole, self.dtype, MOST_BYTES):
            spec = spec_of_rows(whole, start, count)
            part = replace(self.wanted, shape=(count, *whole[1:]), slice_spec=spec)
            yield Entry(name, read_tensors(self.path, [part])[0], spec)


def in_slices(path: str, wanted: Sequence[Wanted]) -> dict[int, InSlices]:
    """Which of the wanted variables are large and stored in slices, by their place.

    One that is stored as a whole is read so: TensorFlow reads all of it for each slice.
    """
    try:
        stored = bundle.read(path).tensors
    except CheckpointError:
        return {}  # whoever reads the rest says so
    sliced: dict[int, InSlices] = {}
    for number, entry in enumerate(wanted):
        there: Any = stored.get(entry.name)
        dtype = tf.as_dtype(entry.dtype)
        if there is None or there.size or entry.slice_spec or there.shape != entry.shape:
            continue
        if there.dtype == dtype.name and there.elements * dtype.size > MOST_BYTES:
            sliced[number] = InSlices(path, entry, tf.TensorShape(there.shape), dtype)
    return sliced
