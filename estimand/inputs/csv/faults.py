"""Where CSV files are broken: file, line, column and value, found by reading them again."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterator, Sequence

import tensorflow as tf

from estimand.core import tf_private
from estimand.inputs.csv.columns import Column, CsvColumns, is_number
from estimand.inputs.files import InputFile, is_utf8
from estimand.inputs.lines import BLOCK, is_data


@dataclasses.dataclass(frozen=True)
class Fault:
    """The first thing that is wrong, with what would put it right where there is such a thing."""

    path: str
    line: int
    what: str
    remedy: str = ""

    @property
    def place(self) -> str:
        return f"{self.path}, line {self.line}{self.what}"


def first_fault(
    files: Sequence[InputFile],
    skip: Sequence[int],
    columns: CsvColumns,
    comment: str | None,
) -> Fault | None:
    """Read the files in order until a line is met that cannot be decoded."""
    for file, lines_before in zip(files, skip, strict=True):
        for block in _blocks(file, lines_before, comment):
            if decodes(columns, [line for _, line in block]):
                continue
            for number, line in block:
                if not decodes(columns, [line]):
                    return _explain(columns, file.path, number, line)
    return None


def _blocks(file: InputFile, skip: int, comment: str | None) -> Iterator[list[tuple[int, bytes]]]:
    lines = ((n, line) for n, line in file.lines() if n > skip and is_data(line, comment))
    while block := list(itertools.islice(lines, BLOCK)):
        yield block


def decodes(columns: CsvColumns, lines: list[bytes], only: Column | None = None) -> bool:
    """Asked of TensorFlow itself: what it refuses is broken, whatever another parser says."""
    with tf_private.eager_mode(), tf.device("/cpu:0"):
        try:
            if only is None:
                columns.decode(tf.constant(lines))
            else:
                columns.decode_one(tf.constant(lines), only)
        except tf.errors.InvalidArgumentError:
            return False
    return True


def _explain(columns: CsvColumns, path: str, number: int, line: bytes) -> Fault:
    if columns.has_text and not is_utf8(line):
        return _explain_bytes(columns, path, number, line)
    text = line.decode(errors="replace")
    shown = repr(text if len(text) <= 80 else text[:77] + "...")
    if columns.dialect.use_quote_delim and text.count('"') % 2:
        return Fault(
            path,
            number,
            f": a quoted field is not closed on its line: {shown}",
            "Line breaks inside fields are not supported: replace them when writing the file. "
            "If quotes mean nothing in this file, pass use_quote_delim=False.",
        )
    fields = columns.dialect.split(text)
    if len(fields) != len(columns.names):
        return Fault(
            path,
            number,
            f" has {_count(len(fields), 'field')} and {len(columns.names)} were expected "
            f"({', '.join(columns.names)}): {shown}",
        )
    for column in columns.read:
        if not decodes(columns, [line], column):
            return _explain_field(columns, column, path, number, fields[column.index])
    return Fault(path, number, f": misplaced quotes: {shown}")


def _explain_bytes(columns: CsvColumns, path: str, number: int, line: bytes) -> Fault:
    # Every byte is a character of Latin-1, so fields can be told apart all the same.
    fields = [field.encode("latin-1") for field in columns.dialect.split(line.decode("latin-1"))]
    bad = next((i for i, field in enumerate(fields) if not is_utf8(field)), 0)
    name = columns.names[bad] if bad < len(columns.names) else f"number {bad}"
    return Fault(
        path,
        number,
        f", column {name!r}: {fields[bad][:80]!r} is not UTF-8",
        f"Convert the file: `iconv -f LATIN1 -t UTF-8 {os.path.basename(path)}`.",
    )


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _explain_field(
    columns: CsvColumns, column: Column, path: str, number: int, value: str
) -> Fault:
    what = f", column {column.name!r}: "
    if value in ("", columns.dialect.na_value):
        default = "0" if column.dtype.is_integer else "0.0"
        return Fault(
            path,
            number,
            f"{what}the value is missing",
            f"Say what stands for it, column_defaults={{{column.name!r}: {default}}}, or for all "
            "columns of numbers: numeric_default=0.",
        )
    if column.dtype == tf.string:
        return Fault(path, number, f"{what}misplaced quotes in {value!r}")
    remedy = ""
    if column.inferred:
        wider_type = "tf.float32" if column.dtype.is_integer and is_number(value) else "tf.string"
        remedy = (
            f"The type was inferred from the first rows; if it is another, pass "
            f"column_defaults={{{column.name!r}: {wider_type}}}."
        )
    return Fault(path, number, f"{what}{value!r} is not {column.kind}", remedy)
