"""Rows of files: CSV, JSON, TFRecord and Parquet, one after the other, in little memory."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import gzip
import io
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from estimand.core.errors import InputError, MissingExtraError
from estimand.core.interpreter.deferred import deferred

if TYPE_CHECKING:
    import tensorflow as tf
else:
    tf = deferred("tensorflow")

FORMATS = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".parquet": "parquet",
    ".tfrecord": "tfrecord",
    ".tfrecords": "tfrecord",
}
Row = Mapping[str, Any] | bytes
_ROWS_AT_ONCE = 1024


@dataclasses.dataclass(frozen=True)
class Unreadable:
    """In the place of a row that cannot be read, though those behind it can."""

    reason: str
    text: str


def read_rows(path: str, file_format: str | None = None) -> Iterator[Row]:
    """The rows of a CSV file with a header, of JSON or Parquet, or the records of a TFRecord file.

    JSON may be one object per line, a list of objects, or `{"instances": [...]}`. Each of them but
    Parquet may be compressed by gzip, which the ending `.gz` tells.
    """
    file_format = format_of(path, file_format)
    if not is_remote(path) and not os.path.isfile(path):
        raise InputError(f"There is no file {path!r} to read rows from.")
    return (_readable(row) for row in each_row(path, file_format))


def each_row(path: str, file_format: str) -> Iterator[Row | Unreadable]:
    """The same, with rows that cannot be read in their places."""
    return _READERS[file_format](path)


def format_of(path: str, file_format: str | None = None) -> str:
    """What the file is: as told, or by its ending."""
    ending = os.path.splitext(path.removesuffix(".gz"))[1].lower()
    format_name = file_format or FORMATS.get(ending)
    if format_name is None:
        raise InputError(
            f"The ending {ending!r} of {path!r} does not tell its format; say which it is: "
            "csv, json, parquet or tfrecord."
        )
    return format_name


def _readable(row: Row | Unreadable) -> Row:
    if isinstance(row, Unreadable):
        raise InputError(row.reason)
    return row


# ------------------------------------------------------------------ opening


def is_remote(path: str) -> bool:
    return "://" in path


def open_binary(path: str) -> BinaryIO:
    """A local file, or one that TensorFlow's file systems know: gs:// and friends."""
    if not is_remote(path):
        return open(path, "rb")
    try:
        return io.BufferedReader(_Remote(path), 1 << 20)
    except tf.errors.OpError as error:
        raise InputError(f"{path} cannot be read: {error.message}") from error


class _Remote(io.RawIOBase):
    """TensorFlow's file object as Python's libraries know files."""

    def __init__(self, path: str) -> None:
        self._file = tf.io.gfile.GFile(path, "rb")
        self._size = self._file.size()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._file.tell(), io.SEEK_END: self._size}[whence]
        self._file.seek(start + offset)
        return start + offset

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


@contextlib.contextmanager
def _text_file(path: str) -> Iterator[TextIO]:
    try:
        with open_binary(path) as raw:
            file = gzip.GzipFile(fileobj=raw) if path.endswith(".gz") else raw
            with io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as text:
                yield text
    except (gzip.BadGzipFile, EOFError) as error:
        raise InputError(f"{path} is no gzip file, or damaged: {error}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is no text in UTF-8: {error}. Convert it first.") from error


# ------------------------------------------------------------------ CSV


def _csv_rows(path: str) -> Iterator[Row | Unreadable]:
    with _text_file(path) as file:
        reader = csv.DictReader(file, strict=True)  # else a quote left open takes rows silently
        try:
            yield from _checked_cells(path, reader)
        except csv.Error as error:
            raise InputError(f"{path}, line {reader.line_num}: {error}.") from error


def _checked_cells(path: str, reader: csv.DictReader[str]) -> Iterator[Row | Unreadable]:
    columns = list(reader.fieldnames or ())
    twice = sorted({name for name in columns if columns.count(name) > 1})
    if twice:
        raise InputError(
            f"{path}: the header names {twice[0]!r} more than once. Several numbers of one "
            "row go into one cell, as a list: [1.5, 2.0]."
        )
    while True:
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:  # it goes on with the next line
            where = f"{path}, line {reader.line_num}"
            yield Unreadable(f"{where}: {error}. Is there a quote too many or too few?", "")
            continue
        if None in row or None in row.values():
            reason = (
                f"{path}, line {reader.line_num}: the header has {len(columns)} columns, this "
                "line has more or fewer."
            )
            yield Unreadable(reason, json.dumps(list(row.values()), ensure_ascii=False))
        else:
            yield row


# ------------------------------------------------------------------ JSON


def _json_rows(path: str) -> Iterator[Row | Unreadable]:
    if _is_one_document(path):
        try:
            with _text_file(path) as file:
                document = _parsed(file.read())
        except json.JSONDecodeError as error:
            raise InputError(f"{path} is no JSON: {error}.") from error
        if isinstance(document, dict) and isinstance(document.get("instances"), list):
            document = document["instances"]
        for row in document if isinstance(document, list) else [document]:
            yield _checked_row(path, row)
        return
    with _text_file(path) as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _json_line(f"{path}, line {number}", line)


def _is_one_document(path: str) -> bool:
    """Rather than an object per line: those of a large file are never in memory together."""
    with _text_file(path) as file:
        first = next((line for line in file if line.strip()), "")
    with contextlib.suppress(ValueError):
        start = _parsed(first)
        return not isinstance(start, dict) or isinstance(start.get("instances"), list)
    if path.removesuffix(".gz").endswith((".jsonl", ".ndjson")):
        return False  # its first line is broken
    try:
        with _text_file(path) as file:
            _parsed(file.read())
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        return False
    return True


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        raise json.JSONDecodeError("Too many brackets within each other", "", 0) from None


def _json_line(where: str, line: str) -> Row | Unreadable:
    try:
        row = _parsed(line)
    except ValueError as error:
        return Unreadable(f"{where} is no JSON: {error}", line.rstrip("\r\n"))
    return _checked_row(where, row)


def _checked_row(where: str, row: Any) -> Row | Unreadable:
    if isinstance(row, dict):
        return row
    reason = f"{where}: a row is an object of input names to values, found {row!r}."
    return Unreadable(reason, json.dumps(row))


# ------------------------------------------------------------------ TFRecord and Parquet


def _records(path: str) -> Iterator[Row | Unreadable]:
    try:
        for record in tf.data.TFRecordDataset(path, "GZIP" if path.endswith(".gz") else None):
            yield record.numpy()
    except (tf.errors.DataLossError, tf.errors.OutOfRangeError) as error:
        raise InputError(f"{path} is no TFRecord file, or damaged: {error.message}") from error


def _parquet_rows(path: str) -> Iterator[Row | Unreadable]:
    from estimand.inputs.memory.tables import as_numbers

    for table in parquet_tables(path, _ROWS_AT_ONCE):
        yield from as_numbers(table).to_pylist()


@contextlib.contextmanager
def parquet_file(path: str) -> Iterator[Any]:
    """An open `pyarrow.parquet.ParquetFile`."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise MissingExtraError("reading Parquet files", "parquet", "pyarrow") from None
    try:
        with contextlib.ExitStack() as stack:
            source = stack.enter_context(open_binary(path)) if is_remote(path) else path
            # Pages without a checksum, which most writers leave out, are read all the same.
            yield stack.enter_context(
                pyarrow.parquet.ParquetFile(
                    source, memory_map=not is_remote(path), page_checksum_verification=True
                )
            )
    except (pyarrow.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(f"{path} is no Parquet file that can be read: {reason}.") from error


def parquet_tables(
    path: str, rows_at_once: int, begin: int = 0, end: int | None = None
) -> Iterator[Any]:
    """The rows from `begin` to `end` as tables of up to so many."""
    import pyarrow

    with parquet_file(path) as file:
        sizes = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
        starts = [0, *itertools.accumulate(sizes)]
        end = starts[-1] if end is None else min(end, starts[-1])
        wanted = [i for i in range(len(sizes)) if starts[i] < end and starts[i + 1] > begin]
        position = starts[wanted[0]] if wanted else 0
        for batch in file.iter_batches(rows_at_once, row_groups=wanted):
            table = pyarrow.Table.from_batches([batch])
            kept = table.slice(max(0, begin - position), max(0, end - max(begin, position)))
            position += table.num_rows
            if kept.num_rows:
                yield kept
            if position >= end:
                return


_READERS: dict[str, Callable[[str], Iterator[Row | Unreadable]]] = {
    "csv": _csv_rows,
    "json": _json_rows,
    "parquet": _parquet_rows,
    "tfrecord": _records,
}
