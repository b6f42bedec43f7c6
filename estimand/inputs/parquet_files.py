"""`parquet_input_fn`: columns of Parquet files, in memory if they fit, else read as needed."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core.errors import InputError
from estimand.inputs.broken_data import check_on_error
from estimand.inputs.files import Paths, find_files, short_list
from estimand.inputs.memory.tables import Skipped, TableColumns, dtype_of, from_memory, load_pyarrow
from estimand.inputs.order import Epoch, Order
from estimand.inputs.sources import note_source

_WHERE = "parquet_input_fn"
_SLICE = 2048  # rows that are handed to TensorFlow at a time


def parquet_input_fn(
    files: Paths,
    batch_size: int = 128,
    label_name: str | None = None,
    *,
    select_columns: Sequence[str] | None = None,
    column_defaults: Mapping[str, Any] | None = None,
    numeric_default: float | None = None,
    num_epochs: int | None = None,
    shuffle: bool | None = None,
    shuffle_buffer_size: int = 10_000,
    seed: int | None = None,
    drop_remainder: bool = False,
    on_error: str = "raise",
    memory_limit: int = 2**29,
) -> ParquetInputFn:
    """An input function that reads Parquet files: a dict of columns, and one of them as labels.

    Needs pyarrow: `pip install 'estimand[parquet]'`. Numbers keep their types, dates and times
    become integers, lists of a fixed size a second dimension.

    Args:
      files: a path, a pattern such as "data/*.parquet", or a list of them.
      batch_size: rows per batch.
      label_name: the column that is the label; without it batches are features only.
      select_columns: the columns to read; the label among them.
      column_defaults: by column, what stands for a missing value.
      numeric_default: what stands for missing numbers in other columns. None: a missing number
        is an error. Missing texts are empty.
      num_epochs: how often to read all rows. None: for ever in training, else once.
      shuffle: whether to shuffle the rows. None: only in training.
      shuffle_buffer_size: how many rows are shuffled among each other at a time, where the
        files are too large for memory; in memory all are.
      seed: for an order that is the same in every run.
      drop_remainder: leave out a last batch that is smaller than the others.
      on_error: "raise" stops at the first broken row and names it; "skip" leaves broken rows
        out and reports how many there were.
      memory_limit: files of up to so many bytes, uncompressed, are read into memory at once.

    >>> read = parquet_input_fn("data/*.parquet", label_name="rich")  # doctest: +SKIP
    """
    check_on_error(_WHERE, on_error)
    load_pyarrow("reading Parquet files")
    order = Order(batch_size, num_epochs, shuffle, shuffle_buffer_size, seed, drop_remainder)
    select = None if select_columns is None else tuple(select_columns)
    return ParquetInputFn(
        files, order, label_name, select, column_defaults, numeric_default, on_error, memory_limit
    )


@dataclasses.dataclass(frozen=True)
class ParquetInputFn:
    """What `parquet_input_fn` returns: call it for a Dataset."""

    files: Paths
    order: Order
    label_name: str | None
    select_columns: tuple[str, ...] | None
    column_defaults: Mapping[str, Any] | None
    numeric_default: float | None
    on_error: str
    memory_limit: int

    def __call__(
        self,
        mode: str | None = None,
        input_context: tf.distribute.InputContext | None = None,
    ) -> tf.data.Dataset:
        paths = find_files(_WHERE, self.files)
        files = [_File.at(path) for path in paths]
        columns = TableColumns.choose(
            _WHERE,
            files[0].schema_arrow,
            self.select_columns,
            self.label_name,
            self.column_defaults,
            self.numeric_default,
        )
        _check_same_columns(paths, files, columns)
        reading = ParquetReading(paths, files, columns, self.on_error)
        note_source(reading.skipped)
        order = self.order.for_mode(mode)
        if reading.bytes <= self.memory_limit:
            arrays = reading.everything()
            return from_memory(_WHERE, columns.split(arrays), order, input_context)
        return reading.stream(order, input_context)


@dataclasses.dataclass(frozen=True)
class _File:
    """What its end says of a Parquet file, which is open only while a part of it is read.

    A pipeline may be held for as long as the process lives.
    """

    path: str
    metadata: Any
    schema_arrow: Any

    @classmethod
    def at(cls, path: str) -> _File:
        pyarrow = load_pyarrow("reading Parquet files")
        try:
            with _opened(path) as file:
                return cls(path, file.metadata, file.schema_arrow)
        except (pyarrow.ArrowException, OSError) as error:
            reason = str(error).splitlines()[0].rstrip(".")
            raise InputError(
                f"{_WHERE}: {path} is no Parquet file that can be read: {reason}."
            ) from error

    def read_row_group(self, group: int, columns: list[str]) -> Any:
        with _opened(self.path, metadata=self.metadata) as file:
            return file.read_row_group(group, columns)


def _opened(path: str, **known: Any) -> Any:
    import pyarrow.parquet as parquet

    # Pages without a checksum, which most writers leave out, are read all the same.
    return parquet.ParquetFile(
        path, memory_map="://" not in path, page_checksum_verification=True, **known
    )


def _check_same_columns(paths: list[str], files: list[_File], columns: TableColumns) -> None:
    for path, file in zip(paths, files, strict=True):
        schema = file.schema_arrow
        for name, kind in zip(columns.names, columns.types, strict=True):
            there = schema.field(name).type if name in schema.names else None
            if there != kind:
                has = f"of type {there} there" if there is not None else "missing there"
                raise InputError(
                    f"{_WHERE}: {path} differs from {paths[0]}: column {name!r} is {has}, and of "
                    f"type {kind} in the first file. The columns of {path} are: "
                    f"{', '.join(schema.names)}."
                )


class ParquetReading:
    """Parquet files being read, row group by row group."""

    def __init__(
        self, paths: list[str], files: list[_File], columns: TableColumns, on_error: str
    ) -> None:
        self._paths = paths
        self._files = files
        self._columns = columns
        self.skipped = Skipped(_WHERE, short_list(paths), on_error)
        self._lock = threading.Lock()
        self._kept: tuple[tuple[int, int], Any] | None = None  # the row group read last
        groups = [
            (f, g, file.metadata.row_group(g).num_rows)
            for f, file in enumerate(files)
            for g in range(file.metadata.num_row_groups)
        ]
        self._groups = np.asarray([group for group in groups if group[2]], np.int64).reshape(-1, 3)
        self._first_rows = {
            f: np.cumsum([0, *(g[2] for g in groups if g[0] == f)]) for f in range(len(files))
        }
        if not len(self._groups):
            raise InputError(f"{_WHERE}: there are no rows in {short_list(paths)}.")

    @property
    def bytes(self) -> int:
        """How much memory the columns that are read take, about."""
        wanted = set(self._columns.names)
        return sum(
            chunk.total_uncompressed_size
            for f, g, _ in self._groups.tolist()
            for group in [self._files[f].metadata.row_group(g)]
            for chunk in map(group.column, range(group.num_columns))
            if chunk.path_in_schema.partition(".")[0] in wanted
        )

    def everything(self) -> dict[str, np.ndarray]:
        parts = [self._rows(f, g, 0, rows) for f, g, rows in self._groups.tolist()]
        return {name: np.concatenate([p[name] for p in parts]) for name in self._columns.names}

    def _rows(self, file: int, group: int, start: int, stop: int) -> dict[str, np.ndarray]:
        table = self._row_group(file, group)
        if table is None:
            self.skipped.see(stop - start)
            table = self._columns_of(file).slice(0, 0)
        first = int(self._first_rows[file][group]) + start
        return self.skipped.take(
            self._columns,
            table.slice(start, stop - start),
            lambda row: f"{self._paths[file]}, row {first + row} (counted from 0)",
            (file, first),
        )

    def _columns_of(self, file: int) -> Any:
        schema = self._files[file].schema_arrow
        empty = load_pyarrow("reading Parquet files").Table
        return empty.from_batches([], schema).select(list(self._columns.names))

    def _row_group(self, file: int, group: int) -> Any:
        """A row group as a table; None for one that cannot be read and is to be skipped."""
        pyarrow = load_pyarrow("reading Parquet files")
        with self._lock:
            if self._kept is None or self._kept[0] != (file, group):
                try:
                    table = self._files[file].read_row_group(group, list(self._columns.names))
                except (pyarrow.ArrowException, OSError) as error:
                    rows = self._files[file].metadata.row_group(group).num_rows
                    reason = str(error).splitlines()[0].rstrip(".")
                    what = f"{self._paths[file]}, row group {group} is damaged: {reason}"
                    first = int(self._first_rows[file][group])
                    self.skipped.count(rows, what, at=(file, first))
                    table = None
                self._kept = (file, group), table
            return self._kept[1]

    def stream(self, order: Order, context: tf.distribute.InputContext | None) -> tf.data.Dataset:
        """Rows as they are needed.

        What Python does here depends on nothing but the numbers it is given, and is declared so:
        then the position of the pipeline can be saved like any other.
        """
        number = context.num_input_pipelines if context is not None else 1
        own = context.input_pipeline_id if context is not None else 0
        by_row = len(self._groups) < number
        listed = tf.constant(self._groups if by_row else self._groups[own::number])
        self._check_not_empty(listed.numpy(), number if by_row else 1)

        def parts(epoch: Epoch | None) -> tf.data.Dataset:
            groups = listed
            # All pipelines that share the rows have to see them in the same order.
            if epoch is not None and not by_row:
                groups = tf.gather(groups, epoch.permutation(groups.shape[0]))
            read = tf.data.Dataset.from_tensor_slices(groups).flat_map(_slices).map(self._read)
            return read.unbatch().shard(number, own).batch(_SLICE) if by_row else read

        return order.batches(parts)

    def _check_not_empty(self, groups: np.ndarray, needed: int) -> None:
        """There is a row for every pipeline; none at all would be waited for for ever."""
        trial = ParquetReading(self._paths, self._files, self._columns, "skip")
        rows_read = 0
        for file, group, rows in groups.tolist():
            rows_read += len(trial._rows(file, group, 0, rows)[self._columns.names[0]])
            if rows_read >= needed:
                return
        why = trial.skipped.report_skipped()
        raise InputError(
            f"{_WHERE}: {rows_read} of the rows of {short_list(self._paths)} can be used, and "
            f"{needed} or more are needed.{f' {why}' if why else ''}"
        )

    @tf.autograph.experimental.do_not_convert
    def _read(self, part: tf.Tensor) -> Any:
        kinds = [dtype_of(kind) for kind in self._columns.types]
        flat = tf.numpy_function(
            self._read_now, [part], [dtype for dtype, _ in kinds], stateful=False
        )
        shaped = [
            tf.ensure_shape(array, [None, *shape])
            for array, (_, shape) in zip(flat, kinds, strict=True)
        ]
        return self._columns.split(dict(zip(self._columns.names, shaped, strict=True)))

    def _read_now(self, part: np.ndarray) -> list[np.ndarray]:
        arrays = self._rows(*(int(number) for number in part))
        return [arrays[name] for name in self._columns.names]


@tf.autograph.experimental.do_not_convert
def _slices(group: tf.Tensor) -> tf.data.Dataset:
    file, number, rows = group[0], group[1], group[2]
    starts = tf.data.Dataset.range(0, rows, _SLICE)
    return starts.map(
        lambda start: tf.stack([file, number, start, tf.minimum(start + _SLICE, rows)])
    )
