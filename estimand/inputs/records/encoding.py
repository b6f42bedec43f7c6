"""Rows of columns to framed tf.train.Example or SequenceExample records."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np

from estimand.core.files import varints
from estimand.inputs.records import crc32c, framing, wire
from estimand.inputs.records.columns import Column, feature_prefix
from estimand.inputs.records.wire import Layout, Pieces

_FEATURES = b"\x0a"  # field 1: the features of an Example, the context of a SequenceExample
_FEATURE_LISTS = b"\x12"  # field 2 of a SequenceExample


def frame_examples(columns: Mapping[str, Column], rows: int) -> np.ndarray:
    """`rows` Examples as they stand in a TFRecord file."""
    return _frame(rows, [_Part(_FEATURES, columns, rows)])


def serialized_examples(columns: Mapping[str, Column], rows: int) -> list[bytes]:
    """`rows` Examples, each for itself."""
    part = _Part(_FEATURES, columns, rows)
    ends = np.cumsum(part.lengths)
    out: np.ndarray = np.empty(int(ends[-1]) if rows else 0, np.uint8)
    part.write(out, ends - part.lengths)
    data, bounds = out.tobytes(), [0, *ends.tolist()]
    return [data[begin:end] for begin, end in itertools.pairwise(bounds)]


def frame_sequence_examples(
    context: Mapping[str, Column], sequences: Mapping[str, Column], rows: int
) -> np.ndarray:
    """`rows` SequenceExamples as they stand in a TFRecord file."""
    return _frame(
        rows,
        [_Part(_FEATURES, context, rows), _Part(_FEATURE_LISTS, sequences, rows, steps=True)],
    )


def frame_serialized(records: list[bytes]) -> np.ndarray:
    """Records that are bytes already."""
    pieces = Pieces.of(records)
    out, positions = _empty_records(pieces.lengths)
    starts = positions.copy()
    Layout(pieces, lambda length: b"").write(out, positions)
    _write_checksums(out, starts, pieces.lengths)
    return out


class _Part:
    """One map of names to features: a field of the message, the same in every row."""

    def __init__(
        self, tag: bytes, columns: Mapping[str, Column], rows: int, steps: bool = False
    ) -> None:
        self._tag = tag
        self._layouts = [
            Layout(column.payload, _entry_prefix(name, column, steps), column.rows)
            for name, column in columns.items()
        ]
        self._inner: np.ndarray = np.zeros(rows, np.int64)
        for layout in self._layouts:
            layout.add_lengths(self._inner)
        self._numbers = wire.varints(self._inner)
        self.lengths = 1 + self._numbers.lengths + self._inner

    def write(self, out: np.ndarray, positions: np.ndarray) -> None:
        Layout(self._numbers, lambda length: self._tag).write(out, positions)
        for layout in self._layouts:
            layout.write(out, positions)


def _entry_prefix(name: str, column: Column, steps: bool) -> wire.Prefix:
    key = name.encode()
    key = b"\x0a" + varints.encode(len(key)) + key + b"\x12"
    feature = (lambda length: b"") if steps else feature_prefix(column)

    def prefix(length: int) -> bytes:
        inner = feature(length)
        entry = key + varints.encode(len(inner) + length) + inner
        return b"\x0a" + varints.encode(len(entry) + length) + entry

    return prefix


def _frame(rows: int, parts: list[_Part]) -> np.ndarray:
    lengths: np.ndarray = np.zeros(rows, np.int64)
    for part in parts:
        lengths += part.lengths
    out, positions = _empty_records(lengths)
    starts = positions.copy()
    for part in parts:
        part.write(out, positions)
    _write_checksums(out, starts, lengths)
    return out


def _empty_records(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(a buffer with all headers, where the data of each record begins)."""
    ends = np.cumsum(lengths + framing.FRAME)
    out: np.ndarray = np.empty(int(ends[-1]) if len(ends) else 0, np.uint8)
    header: np.ndarray = np.empty(len(lengths), [("length", "<u8"), ("crc", "<u4")])
    header["length"] = lengths
    header["crc"] = crc32c.mask(crc32c.checksums_of_lengths(lengths))
    starts = ends - lengths - framing.FRAME
    headers = Pieces(header.view(np.uint8), np.arange(len(lengths)) * 12, np.full(len(lengths), 12))
    Layout(headers, lambda length: b"").write(out, starts)
    return out, starts


def _write_checksums(out: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> None:
    crcs: np.ndarray = crc32c.mask(crc32c.checksums(out, starts, lengths)).astype("<u4")
    count = len(crcs)
    words = Pieces(crcs.view(np.uint8), np.arange(count) * 4, np.full(count, 4))
    Layout(words, lambda length: b"").write(out, starts + lengths)
