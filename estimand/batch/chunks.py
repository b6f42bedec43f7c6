"""Rows of a file a chunk at a time: as dicts and records, or as columns where the file has them."""

from __future__ import annotations

import base64
import dataclasses
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from estimand.batch import columns
from estimand.export.loaded.row_files import Row, Unreadable, each_row, parquet_tables
from estimand.export.loaded.rows import AnySignature, inputs_of_rows
from estimand.inputs.memory.tables import as_numbers
from estimand.inputs.records import image_folders
from estimand.inputs.records.reading import decode, values_of

IMAGES = "images"  # the format of a folder of them
_IMAGES_AT_ONCE = 64
# What a single row may be the reason of. Anything else ends the shard.
_FAULTS_OF_ROWS = (ValueError, TypeError, OverflowError)
_T = TypeVar("_T")


@dataclasses.dataclass(frozen=True)
class RowError:
    """A row that got no answer. `row` counts from 1, as messages do."""

    row: int
    error: str
    input: Any


@dataclasses.dataclass(frozen=True)
class Rows:
    """Rows, and which of the file they are, from 0."""

    rows: Sequence[Row]
    numbers: Sequence[int]
    names: Sequence[str] | None = None  # where all rows have the same

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def first(self) -> int:
        return self.numbers[0]

    def part(self, begin: int, end: int) -> Rows:
        return dataclasses.replace(self, rows=self.rows[begin:end], numbers=self.numbers[begin:end])

    def inputs(self, signature: AnySignature, schema: Mapping[str, Any]) -> dict[str, Any]:
        table = columns.table_of_rows(self.named(), [*schema, *signature.inputs])
        inputs = None if table is None else columns.inputs_of_table(signature, table, schema)
        return inputs or inputs_of_rows(
            signature, self.rows, schema, self.first, names_are_known=True
        )

    def kept(self, names: Sequence[str]) -> dict[str, Any]:
        rows = [_features(row) if isinstance(row, bytes) else row for row in self.rows]
        return {name: [row.get(name) for row in rows] for name in names}

    def named(self) -> list[Mapping[str, Any]]:
        return [row for row in self.rows if not isinstance(row, bytes)]

    def error(self, reason: str) -> RowError:
        """Of the first row, usually the only one."""
        row = self.rows[0]
        shown = {"b64": base64.b64encode(row).decode()} if isinstance(row, bytes) else dict(row)
        return RowError(self.first + 1, reason, shown)


def _features(record: bytes) -> dict[str, Any]:
    values = {
        name: list(values_of(feature)[1]) for name, feature in decode(record, "row", 0)[0].items()
    }
    return {name: given[0] if len(given) == 1 else given for name, given in values.items()}


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of a table of pyarrow, the first of which is the row `first` of the file."""

    table: Any
    first: int

    def __len__(self) -> int:
        return self.table.num_rows

    @property
    def names(self) -> Sequence[str]:
        return self.table.column_names

    def part(self, begin: int, end: int) -> Table:
        return Table(self.table.slice(begin, end - begin), self.first + begin)

    def inputs(self, signature: AnySignature, schema: Mapping[str, Any]) -> dict[str, Any]:
        numbers = as_numbers(self.table)
        inputs = columns.inputs_of_table(signature, numbers, schema) if len(self) > 1 else None
        return inputs or self._as_rows(numbers).inputs(signature, schema)

    def kept(self, names: Sequence[str]) -> dict[str, Any]:
        return {name: self.table.column(name) for name in names}

    def named(self) -> list[Mapping[str, Any]]:
        return self.table.slice(0, 1).to_pylist()

    def error(self, reason: str) -> RowError:
        return self._as_rows(self.table.slice(0, 1)).error(reason)

    def _as_rows(self, table: Any) -> Rows:
        return Rows(table.to_pylist(), range(self.first, self.first + table.num_rows))


Chunk = Rows | Table


def read_chunks(
    path: str, file_format: str, size: int, begin: int = 0, end: int | None = None
) -> Iterator[Chunk | RowError]:
    """The rows of a file; of a Parquet file or folder of images those from `begin` to `end`."""
    if file_format == IMAGES:
        yield from _images(path, size, begin, end)
        return
    if file_format == "parquet":
        for table in parquet_tables(path, size, begin, end):
            yield Table(table, begin)
            begin += table.num_rows
        return
    numbered = enumerate(each_row(path, file_format))
    while batch := list(itertools.islice(numbered, size)):
        good: list[tuple[int, Row]] = []
        for number, row in batch:
            if isinstance(row, Unreadable):
                yield RowError(number + 1, row.reason, row.text)
            else:
                good.append((number, row))
        if good:
            numbers, rows = zip(*good, strict=True)
            names = list(rows[0]) if file_format == "csv" else None
            yield Rows(rows, numbers, names)


def _images(folder: str, size: int, begin: int, end: int | None) -> Iterator[Chunk | RowError]:
    numbered = enumerate(image_folders.in_folders(folder)[begin:end], begin)
    while batch := list(itertools.islice(numbered, min(size, _IMAGES_AT_ONCE))):
        good: list[tuple[int, Row]] = []
        for number, image in batch:
            try:
                good.append((number, image_folders.row_of(*image)))
            except OSError as error:
                yield RowError(number + 1, str(error), {"image/filename": image[0]})
        if good:
            numbers, rows = zip(*good, strict=True)
            yield Rows(rows, numbers, list(rows[0]))


def by_parts(chunk: Chunk, make: Callable[[Chunk], _T]) -> Iterator[_T | RowError]:
    """What `make` gives, in the order of the rows.

    A chunk that fails is halved until it is clear which rows are the reason.
    """
    try:
        yield make(chunk)
    except _FAULTS_OF_ROWS as error:
        if len(chunk) == 1:
            yield chunk.error(str(error) or type(error).__name__)
            return
        half = len(chunk) // 2
        yield from by_parts(chunk.part(0, half), make)
        yield from by_parts(chunk.part(half, len(chunk)), make)
