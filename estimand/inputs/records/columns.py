"""One feature of many rows, as `tf.train.Feature` knows it: bytes, float or int64."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from estimand.core.errors import InputError
from estimand.core.files import varints
from estimand.inputs.records import wire
from estimand.inputs.records.wire import Pieces

BYTES, FLOAT, INT64 = "bytes", "float", "int64"
KINDS = (BYTES, FLOAT, INT64)
_LISTS = (list, tuple, np.ndarray)


class ColumnError(InputError):
    """Values that cannot become a feature; the message ends a sentence about the feature."""


@dataclasses.dataclass(frozen=True)
class Column:
    """Encoded values of one feature.

    Attributes:
      kind: which of tf.train.Feature's three lists holds them.
      payload: for each row that has the feature, the bytes that change from row to row.
      single: each payload is one value of bytes, without the tag in front of it.
      rows: the numbers of the rows that have it; None: all.
    """

    kind: str
    payload: Pieces
    single: bool = False
    rows: np.ndarray | None = None

    def part(self, begin: int, end: int, step: int = 1) -> Column:
        """The column of the rows `range(begin, end, step)`."""
        if self.rows is None:
            return dataclasses.replace(self, payload=self.payload[begin:end:step])
        low, high = (int(np.searchsorted(self.rows, bound)) for bound in (begin, end))
        chosen = np.arange(low, high)
        chosen = chosen[(self.rows[chosen] - begin) % step == 0]
        rows = (self.rows[chosen] - begin) // step
        return dataclasses.replace(self, payload=self.payload[chosen], rows=rows)


def encode(values: Any, kind: str | None = None) -> Column:
    """A column of one value, or one list of values, for each row.

    `kind` is what they must become; None: what they are. None among them: the row lacks it.

    >>> encode([3, None, 5]).rows.tolist()
    [0, 2]
    """
    if isinstance(values, np.ndarray) and values.dtype != object:
        return _from_array(values, kind)
    return _from_objects(list(values), kind)


def _from_array(array: np.ndarray, kind: str | None) -> Column:
    if array.ndim == 0:
        raise ColumnError(f"is a single value, {array!r}; an array of one value per row is needed")
    count = array.size // len(array) if len(array) else 1
    flat = np.ascontiguousarray(array).reshape(-1)
    if array.dtype.kind in "SU":
        values = flat.tolist()
        return _lists(_scalars(values, kind), np.full(len(array), count), array.ndim == 1)
    column = _numbers(flat, kind)
    return _lists(column, np.full(len(array), count), array.ndim == 1)


def _numbers(flat: np.ndarray, kind: str | None) -> Column:
    code = flat.dtype.kind
    if code not in "bifu" and flat.dtype.name != "bfloat16":
        raise ColumnError(
            f"has type {flat.dtype}, which tf.train.Example has no place for; convert it to "
            "numbers, text or bytes first, e.g. `.astype(str)`"
        )
    chosen = INT64 if code in "biu" else FLOAT
    kind = kind or chosen
    if kind == FLOAT:
        with np.errstate(over="ignore"):
            data = np.ascontiguousarray(flat, dtype="<f4")
        size = len(data)
        return Column(FLOAT, Pieces(data.view(np.uint8), np.arange(size) * 4, np.full(size, 4)))
    if kind != INT64 or chosen != INT64:
        raise ColumnError(f"holds {chosen} values where {kind} ones are wanted")
    if flat.dtype == np.uint64 and len(flat) and int(flat.max()) >= 1 << 63:
        raise ColumnError(f"holds {int(flat.max())}, which does not fit into int64")
    return Column(INT64, wire.varints(flat.astype(np.int64)))


def _from_objects(values: list[Any], kind: str | None) -> Column:
    types = set(map(type, values))
    if any(_may_be_missing(t) for t in types):
        present = [i for i, value in enumerate(values) if not _is_missing(value, types)]
        if len(present) < len(values):
            column = _from_objects([values[i] for i in present], kind)
            return dataclasses.replace(column, rows=np.array(present, np.int64))
    if any(issubclass(t, _LISTS) for t in types):
        return _from_lists(values, types, kind)
    return _lists(_scalars(values, kind), np.ones(len(values), np.int64), True)


def _may_be_missing(kind: type) -> bool:
    return kind in (type(None), float, np.float64) or kind.__name__ in ("NAType", "NaTType")


def _is_missing(value: Any, types: set[type]) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    # Among text, NaN is how pandas marks a missing value; among numbers it is a number.
    return isinstance(value, float) and value != value and (str in types or bytes in types)


def _from_lists(values: list[Any], types: set[type], kind: str | None) -> Column:
    if all(issubclass(t, np.ndarray) for t in types):
        arrays = [value.reshape(-1) for value in values]
        counts = np.fromiter((a.size for a in arrays), np.int64, len(arrays))
        filled = [a for a in arrays if a.size]
        flat = np.concatenate(filled) if filled else np.zeros(0, arrays[0].dtype)
        text = flat.dtype.kind in "SUO"
        column = _scalars(flat.tolist(), kind) if text else _numbers(flat, kind)
        return _lists(column, counts, False)
    lists = [_flattened(value) for value in values]
    counts = np.fromiter(map(len, lists), np.int64, len(lists))
    return _lists(_scalars(list(itertools.chain.from_iterable(lists)), kind), counts, False)


def _flattened(value: Any) -> Sequence[Any]:
    if not isinstance(value, _LISTS):
        return [value]
    if isinstance(value, np.ndarray):
        return value.reshape(-1).tolist()
    if any(isinstance(item, _LISTS) for item in value):
        return list(itertools.chain.from_iterable(map(_flattened, value)))
    return value


def _scalars(values: list[Any], kind: str | None) -> Column:
    """A column of single values, all of one kind."""
    types = set(map(type, values))
    if not types:
        return Column(kind or BYTES, Pieces.of([]))
    if types <= {str}:
        return _expect(Column(BYTES, _text(values)), kind)
    if types <= {bytes}:
        return _expect(Column(BYTES, Pieces.of(values)), kind)
    if all(issubclass(t, (str, bytes, bytearray, memoryview)) for t in types):
        parts = [v.encode() if isinstance(v, str) else bytes(v) for v in values]
        return _expect(Column(BYTES, Pieces.of(parts)), kind)
    wrong = [t.__name__ for t in types if not issubclass(t, (bool, int, float, np.generic))]
    if wrong:
        example = next(v for v in values if type(v).__name__ in wrong)
        raise ColumnError(
            f"holds {example!r} ({', '.join(sorted(wrong))}"
            + (" among numbers" if len(wrong) < len(types) else "")
            + "); a feature is all numbers or all text/bytes"
        )
    try:
        array = np.array(values)
        if array.dtype == object or (array.dtype.kind == "f" and all(map(_is_whole, types))):
            array = np.array([int(v) for v in values], np.int64)
    except OverflowError:
        large = max(values, key=abs)
        raise ColumnError(f"holds {large!r}, which does not fit into int64") from None
    return _numbers(array, kind)


def _is_whole(kind: type) -> bool:
    return issubclass(kind, (bool, int, np.integer, np.bool_))


def _text(values: list[str]) -> Pieces:
    try:
        joined = "".join(values)
        if not joined.isascii():  # then bytes and characters are not counted alike
            return Pieces.of([value.encode() for value in values])
    except UnicodeEncodeError as error:
        raise ColumnError(f"holds {error.object!r}, which cannot be encoded as UTF-8") from None
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    return Pieces.consecutive(np.frombuffer(joined.encode(), np.uint8), lengths)


def _expect(column: Column, kind: str | None) -> Column:
    if kind not in (None, column.kind):
        raise ColumnError(f"holds {column.kind} values where {kind} ones are wanted")
    return column


def _lists(column: Column, counts: np.ndarray, single: bool) -> Column:
    """One payload per row from one per value."""
    payload = column.payload
    if single:
        return dataclasses.replace(column, single=column.kind == BYTES)
    if column.kind == BYTES:
        tagged = wire.joined(payload, lambda length: b"\x0a" + varints.encode(length), counts)
        return dataclasses.replace(column, payload=tagged)
    if column.kind == FLOAT:
        return dataclasses.replace(column, payload=Pieces.consecutive(payload.flat, 4 * counts))
    return dataclasses.replace(column, payload=wire.joined(payload, lambda length: b"", counts))


def encode_steps(rows: Iterable[Sequence[Any]], kind: str | None = None) -> Column:
    """A column of a SequenceExample: for each row its steps, each a value or a list of values.

    Each step becomes a complete tf.train.Feature, and the payload of a row is all of them.
    """
    present = [(i, row) for i, row in enumerate(rows) if row is not None]
    lists = [list(row) for _, row in present]
    steps = list(itertools.chain.from_iterable(lists))
    column = encode(steps, kind)
    if column.rows is not None:
        raise ColumnError("has a step that is None; a step may be an empty list, but not missing")
    counts = np.fromiter(map(len, lists), np.int64, len(lists))
    before = feature_prefix(column)

    def prefix(length: int) -> bytes:
        feature = before(length)
        return b"\x0a" + varints.encode(len(feature) + length) + feature

    payload = wire.joined(column.payload, prefix, counts)
    numbers = None if len(present) == _length(rows) else np.array([i for i, _ in present])
    return Column(column.kind, payload, rows=numbers)


def _length(rows: Any) -> int:
    return len(rows)


_TAGS = {BYTES: b"\x0a", FLOAT: b"\x12", INT64: b"\x1a"}


def feature_prefix(column: Column) -> wire.Prefix:
    """What stands in a tf.train.Feature before a payload of some length."""
    tag = _TAGS[column.kind]

    def prefix(length: int) -> bytes:
        inner = b""
        if column.single or (column.kind != BYTES and length):
            inner = b"\x0a" + varints.encode(length)
        return tag + varints.encode(len(inner) + length) + inner

    return prefix
