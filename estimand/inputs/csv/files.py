"""`csv_input_fn`: rows of CSV files in batches, decoded a batch at a time."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from estimand.core.errors import InputError
from estimand.inputs.broken_data import (
    SkipCounter,
    check_on_error,
    keep_readable,
    skipped_sentence,
)
from estimand.inputs.csv.columns import (
    DECODE,
    CsvColumns,
    Dialect,
    check_known,
    make_columns,
)
from estimand.inputs.csv.faults import decodes, first_fault
from estimand.inputs.files import InputFile, Paths, decoded, is_utf8, text_files
from estimand.inputs.lines import (
    BLOCK,
    NOT_UTF8,
    LineFiles,
    caused_by,
    compression_fault,
    decode_blocks,
    is_data,
    missing_file,
    name_in_messages,
)
from estimand.inputs.order import Epoch, Order
from estimand.inputs.remote_pipelines import warn_if_not_counted
from estimand.inputs.sources import note_source

_WHERE = "csv_input_fn"


def csv_input_fn(
    files: Paths,
    batch_size: int = 128,
    label_name: str | None = None,
    *,
    column_names: Sequence[str] | None = None,
    column_defaults: Mapping[str, Any] | Sequence[Any] | None = None,
    select_columns: Sequence[str | int] | None = None,
    header: bool = True,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    numeric_default: float | None = None,
    comment: str | None = None,
    compression: str | None = None,
    num_epochs: int | None = None,
    shuffle: bool | None = None,
    shuffle_buffer_size: int = 10_000,
    seed: int | None = None,
    drop_remainder: bool = False,
    num_rows_for_inference: int = 1000,
    on_error: str = "raise",
) -> CsvInputFn:
    """An input function that reads CSV files: a dict of columns, and one of them as labels.

    The same function serves training and evaluation: what is left open by `shuffle` and
    `num_epochs` is decided by the mode it is called in.

    Args:
      files: a path, a pattern such as "data/*.csv", or a list of them.
      batch_size: rows per batch.
      label_name: the column that is the label; without it batches are features only.
      column_names: names in place of those in the header, or for files without one (else
        column_0, column_1, …).
      column_defaults: a dict from column name to its type (`tf.float32`, `int`, …) or to the
        value that stands for a missing one; or a list of such, one per column that is read.
        Other columns get the type of their first rows: int64, float32 or string.
      select_columns: names or positions of the columns to read; the label among them.
      header: whether the first line of every file has the names of the columns.
      field_delim: what separates fields.
      use_quote_delim: whether double quotes enclose fields that contain separators.
      na_value: the text that means "missing", beside the empty field.
      numeric_default: what stands for missing numbers in columns without a default of their
        own. None: a missing number is an error. Missing texts are empty.
      comment: lines that begin with it are left out. Blank lines always are.
      compression: "GZIP", "ZLIB" or ""; None decides by the ending .gz.
      num_epochs: how often to read all rows. None: for ever in training, else once.
      shuffle: whether to shuffle the rows. None: only in training.
      shuffle_buffer_size: how many rows are shuffled among each other at a time.
      seed: for an order that is the same in every run.
      drop_remainder: leave out a last batch that is smaller than the others.
      num_rows_for_inference: how many rows to look at for the types of columns.
      on_error: "raise" stops at the first broken row and names it; "skip" leaves broken rows
        out and reports how many there were.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "people.csv")
    >>> _ = open(path, "w").write("age,name,rich\\n31,Ann,0\\n47,Bo,1\\n")
    >>> read = csv_input_fn(path, label_name="rich")
    >>> features, labels = next(iter(read(mode="eval")))
    >>> features["age"].numpy().tolist(), labels.numpy().tolist()
    ([31, 47], [0, 1])
    """
    check_on_error(_WHERE, on_error)
    if len(field_delim) != 1:
        raise InputError(f"{_WHERE}: field_delim must be one character, given: {field_delim!r}.")
    order = Order(batch_size, num_epochs, shuffle, shuffle_buffer_size, seed, drop_remainder)
    return CsvInputFn(
        files=files,
        order=order,
        label_name=label_name,
        column_names=None if column_names is None else tuple(column_names),
        column_defaults=column_defaults,
        select_columns=None if select_columns is None else tuple(select_columns),
        header=header,
        dialect=Dialect(field_delim, use_quote_delim, na_value),
        numeric_default=numeric_default,
        comment=comment,
        compression=compression,
        sample_size=num_rows_for_inference,
        on_error=on_error,
    )


@dataclasses.dataclass(frozen=True)
class CsvInputFn:
    """What `csv_input_fn` returns: call it for a Dataset."""

    files: Paths
    order: Order
    label_name: str | None
    column_names: tuple[str, ...] | None
    column_defaults: Mapping[str, Any] | Sequence[Any] | None
    select_columns: tuple[str | int, ...] | None
    header: bool
    dialect: Dialect
    numeric_default: float | None
    comment: str | None
    compression: str | None
    sample_size: int
    on_error: str

    def __call__(
        self,
        mode: str | None = None,
        input_context: tf.distribute.InputContext | None = None,
    ) -> tf.data.Dataset:
        texts = text_files(_WHERE, self.files, self.compression)
        columns, skip = self._look_at(texts)
        if self.on_error == "skip":
            warn_if_not_counted(_WHERE, "rows")
        if self.label_name is not None:
            read = [column.name for column in columns.read]
            check_known(_WHERE, "label_name", [self.label_name], read)
        reading = CsvReading(self, LineFiles(tuple(texts), tuple(skip)), columns)
        note_source(reading)
        return reading.dataset(self.order.for_mode(mode), input_context)

    def _look_at(self, files: list[InputFile]) -> tuple[CsvColumns, list[int]]:
        """The columns, and how many lines of each file come before its first row."""
        starts = [self._start(file) for file in files]
        if self.header:
            self._check_same_header(files, [names for names, _ in starts])
        skip = [skip for _, skip in starts]
        sample = list(itertools.islice(self._rows(files, skip), self.sample_size))
        if not sample:
            raise InputError(
                f"{_WHERE}: there are no rows in {name_in_messages(files, self.files)}"
                + (", only a header." if self.header else ".")
            )
        names = self._names(files[0], starts[0][0])
        return (
            make_columns(
                _WHERE,
                names,
                self.select_columns,
                self.column_defaults,
                self.numeric_default,
                self.dialect,
                sample,
            ),
            skip,
        )

    def _start(self, file: InputFile) -> tuple[list[str], int]:
        """(fields of the first line that is data or header, number of lines before the rows)"""
        for number, line in file.lines():
            if is_data(line, self.comment):
                fields = self.dialect.split(decoded(_WHERE, file.path, number, line))
                return fields, number if self.header else 0
        raise InputError(f"{_WHERE}: {file.path} has no line that is not blank or a comment.")

    def _check_same_header(self, files: list[InputFile], headers: list[list[str]]) -> None:
        for file, names in zip(files, headers, strict=True):
            if names != headers[0]:
                raise InputError(
                    f"{_WHERE}: the headers of two files differ.\n"
                    f"  {files[0].path}: {', '.join(headers[0])}\n"
                    f"  {file.path}: {', '.join(names)}\n"
                    "Files that are read together need the same columns in the same order."
                )

    def _rows(self, files: list[InputFile], skip: list[int]) -> Any:
        for file, before in zip(files, skip, strict=True):
            for number, line in file.lines():
                if number > before and is_data(line, self.comment):
                    if self.on_error == "skip" and not is_utf8(line):
                        continue
                    yield self.dialect.split(decoded(_WHERE, file.path, number, line))

    def _names(self, file: InputFile, first: list[str]) -> list[str]:
        if self.column_names is None:
            if self.header:
                self._check_is_header(file, first)
                return first
            return [f"column_{i}" for i in range(len(first))]
        if len(self.column_names) != len(first):
            raise InputError(
                f"{_WHERE}: column_names has {len(self.column_names)} names "
                f"({', '.join(self.column_names)}), but the first line of {file.path} has "
                f"{len(first)} fields ({', '.join(first)})."
            )
        return list(self.column_names)

    def _check_is_header(self, file: InputFile, first: list[str]) -> None:
        if first and all(field and field.replace(".", "").lstrip("-").isdigit() for field in first):
            raise InputError(
                f"{_WHERE}: the first line of {file.path} should have the names of the columns, "
                f"but has only numbers: {', '.join(first)}. For files without a header pass "
                "header=False, and names if you like: column_names=[...]."
            )


class CsvReading:
    """One Dataset over CSV files: how it is built, and what it can say of its faults."""

    def __init__(self, asked: CsvInputFn, lines: LineFiles, columns: CsvColumns) -> None:
        self._asked = asked
        self._lines = lines
        self._columns = columns
        self._counter = SkipCounter() if asked.on_error == "skip" else None

    @property
    def defaults(self) -> dict[str, Any]:
        """By column, what stands for a missing value."""
        return {c.name: c.default for c in self._columns.read if c.default is not None}

    def dataset(self, order: Order, context: tf.distribute.InputContext | None) -> tf.data.Dataset:
        share, comment = self._lines.share_of(context), self._asked.comment
        share.check_not_empty(_WHERE, comment, self._can_be_read)

        def rows_of(epoch: Epoch | None) -> tf.data.Dataset:
            return share.lines(epoch, comment)

        readable = None if self._counter is None else self._readable
        decode = decode_blocks(share, comment, self._decode, readable)
        return order.decoded(rows_of, decode, BLOCK)

    def _readable(self, blocks: tf.data.Dataset, size: int) -> tf.data.Dataset:
        assert self._counter is not None
        return keep_readable(blocks, self._columns.decode, self._counter, size)

    def _can_be_read(self, line: bytes) -> bool:
        return self._counter is None or decodes(self._columns, [line])

    def _decode(self, lines: tf.Tensor) -> Any:
        names = [column.name for column in self._columns.read]
        features = dict(zip(names, self._columns.decode(lines), strict=True))
        if self._asked.label_name is None:
            return features
        labels = features.pop(self._asked.label_name)
        return features, labels

    def explain_error(self, error: BaseException) -> Exception | None:
        if not caused_by(error, DECODE, NOT_UTF8):
            return None
        files = self._lines.files
        gone = missing_file(_WHERE, files) or compression_fault(_WHERE, files)
        if gone is not None:
            return gone
        fault = self._first_fault
        if fault is None:
            return None
        return InputError(
            f"{_WHERE}: {fault.place}. {fault.remedy}{' ' if fault.remedy else ''}"
            "To leave broken rows out and have them counted, pass on_error='skip'."
        )

    def report_skipped(self) -> str | None:
        of = name_in_messages(self._lines.files, self._asked.files)
        return skipped_sentence(self._counter, "rows", of, self._first_place)

    def _first_place(self) -> str | None:
        fault = self._first_fault
        return None if fault is None else f"in {fault.place}."

    @functools.cached_property
    def _first_fault(self) -> Any:
        return first_fault(self._lines.files, self._lines.skip, self._columns, self._asked.comment)
