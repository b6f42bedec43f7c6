"""The columns of CSV files: their names, their types, what stands in for a missing value."""

from __future__ import annotations

import csv
import dataclasses
import functools
import itertools
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core.errors import InputError
from estimand.inputs.lines import strict_utf8

_INTEGER = re.compile(r"\s*[-+]?\d+\s*")
_DTYPES = (tf.float32, tf.float64, tf.int32, tf.int64, tf.string)
_PYTHON_TYPES: dict[Any, tf.DType] = {int: tf.int64, float: tf.float32, str: tf.string}
_KINDS = {
    tf.int32: "an integer of 32 bits",
    tf.int64: "an integer",
    tf.float32: "a number",
    tf.float64: "a number",
    tf.string: "a text",
}


@dataclasses.dataclass(frozen=True)
class Column:
    """One column that is read: `default` None means that a value must be there."""

    name: str
    index: int
    dtype: tf.DType
    default: Any = None
    inferred: bool = False

    @property
    def record_default(self) -> tf.Tensor:
        return tf.constant([] if self.default is None else [self.default], self.dtype)

    @property
    def kind(self) -> str:
        return _KINDS[self.dtype]


@dataclasses.dataclass(frozen=True)
class Dialect:
    """How a line is cut into fields."""

    field_delim: str = ","
    use_quote_delim: bool = True
    na_value: str = ""

    def split(self, line: str) -> list[str]:
        if not self.use_quote_delim:
            return line.split(self.field_delim)
        return next(csv.reader([line], delimiter=self.field_delim), [])


@dataclasses.dataclass(frozen=True)
class CsvColumns:
    """All columns of the files by name, and those that are read."""

    names: tuple[str, ...]
    read: tuple[Column, ...]
    dialect: Dialect

    def decode(self, lines: tf.Tensor) -> list[tf.Tensor]:
        """The columns that are read, in their order."""
        # All fields are decoded: with select_cols TensorFlow would not notice a line that has
        # too many of them, and its values would stand in the wrong columns.
        defaults = [tf.constant([""])] * len(self.names)
        for column in self.read:
            defaults[column.index] = column.record_default
        if self.has_text:
            lines = strict_utf8(lines)
        fields = self._decode(lines, defaults)
        return [fields[column.index] for column in self.read]

    @property
    def has_text(self) -> bool:
        return any(column.dtype == tf.string for column in self.read)

    def decode_one(self, lines: tf.Tensor, column: Column) -> None:
        self._decode(lines, [column.record_default], [column.index])

    def _decode(
        self, lines: tf.Tensor, defaults: list[tf.Tensor], select: list[int] | None = None
    ) -> list[tf.Tensor]:
        return tf.io.decode_csv(
            lines,
            defaults,
            field_delim=self.dialect.field_delim,
            use_quote_delim=self.dialect.use_quote_delim,
            na_value=self.dialect.na_value,
            select_cols=select,
            name=DECODE,
        )


DECODE = "estimand_decode_csv"
_NUMBERS_PER_TEXT = 20


def make_columns(
    where: str,
    names: Sequence[str],
    select: Sequence[str | int] | None,
    column_defaults: Mapping[str, Any] | Sequence[Any] | None,
    numeric_default: float | None,
    dialect: Dialect,
    sample: Sequence[Sequence[str]],
) -> CsvColumns:
    """The columns to read, with types from `column_defaults` or else from sample rows."""
    repeated = sorted({name for name in names if list(names).count(name) > 1})
    if repeated:
        raise InputError(
            f"{where}: columns have the same name: {', '.join(map(repr, repeated))}. Pass other "
            "names: column_names=[...]."
        )
    _check_delimiter(where, names, sample)
    chosen = _selected(where, names, select)
    given = _given_defaults(where, names, chosen, column_defaults)
    guessed = _guess_types(len(names), sample, dialect.na_value)
    read = [_column(where, names[i], i, given.get(i), guessed[i], numeric_default) for i in chosen]
    for column in read:
        if column.inferred and column.dtype == tf.string:
            values = [row[column.index] for row in sample if len(row) == len(names)]
            _warn_of_few_texts(where, column.name, [v for v in values if v])
    return CsvColumns(tuple(names), tuple(read), dialect)


def _check_delimiter(where: str, names: Sequence[str], sample: Sequence[Sequence[str]]) -> None:
    """One column, and another delimiter as often in each row as in the name, are several."""
    if len(names) != 1 or not sample:
        return
    for delimiter in ";\t|":
        count = names[0].count(delimiter)
        if count and all(len(row) == 1 and row[0].count(delimiter) == count for row in sample):
            raise InputError(
                f"{where}: the data has one column, {names[0]!r}. If its fields are separated by "
                f"{delimiter!r}, say field_delim={delimiter!r}."
            )


def _warn_of_few_texts(where: str, name: str, values: Sequence[str]) -> None:
    """A number that is misspelt makes a column of texts; that should not pass unnoticed."""
    allowed = len(values) // _NUMBERS_PER_TEXT
    texts = list(itertools.islice((v for v in values if not is_number(v)), allowed + 1))
    if 0 < len(texts) <= allowed:
        _warn_once(
            f"{where}: column {name!r} is read as text, because {len(texts)} of its first "
            f"{len(values)} values are no numbers ({', '.join(map(repr, texts[:3]))}). If they "
            f"are mistakes, say what the column is, column_defaults={{{name!r}: tf.float32}}; "
            "if they mean a missing value, na_value='...' and numeric_default=0."
        )


@functools.cache  # an input function is called for every evaluation
def _warn_once(text: str) -> None:
    logging.getLogger("estimand").warning(text)


def check_known(where: str, what: str, wanted: Iterable[str], names: Sequence[str]) -> None:
    missing = [name for name in wanted if name not in names]
    if missing:
        raise InputError(
            f"{where}: {what} names {', '.join(map(repr, missing))}, which "
            f"{'is not a column' if len(missing) == 1 else 'are not columns'} of the data. "
            f"Its columns are: {', '.join(map(repr, names))}."
        )


def _selected(where: str, names: Sequence[str], select: Sequence[str | int] | None) -> list[int]:
    if select is None:
        return list(range(len(names)))
    check_known(where, "select_columns", [s for s in select if isinstance(s, str)], names)
    too_far = [s for s in select if not isinstance(s, str) and not 0 <= s < len(names)]
    if too_far or not select:
        raise InputError(
            f"{where}: select_columns must be names, or positions from 0 to {len(names) - 1}, "
            f"given: {list(select)!r}."
        )
    return sorted({names.index(s) if isinstance(s, str) else int(s) for s in select})


def _given_defaults(
    where: str,
    names: Sequence[str],
    chosen: Sequence[int],
    defaults: Mapping[str, Any] | Sequence[Any] | None,
) -> dict[int, Any]:
    if defaults is None:
        return {}
    if isinstance(defaults, Mapping):
        check_known(where, "column_defaults", defaults, names)
        return {names.index(name): value for name, value in defaults.items()}
    if len(defaults) != len(chosen):
        raise InputError(
            f"{where}: column_defaults has {len(defaults)} items for {len(chosen)} columns "
            f"({', '.join(names[i] for i in chosen)}). Give one per column that is read, or a "
            "dict for some of them: {'age': 0.0}."
        )
    return dict(zip(chosen, defaults, strict=True))


def _column(
    where: str, name: str, index: int, given: Any, guessed: tf.DType, numeric_default: float | None
) -> Column:
    if given is None:
        if guessed == tf.string:
            return Column(name, index, guessed, "", inferred=True)
        if numeric_default is not None and float(numeric_default) != np.trunc(numeric_default):
            guessed = tf.float32  # NaN and fractions have no place among integers
        if numeric_default is not None and guessed == tf.int64:
            numeric_default = int(numeric_default)
        return Column(name, index, guessed, numeric_default, inferred=True)
    dtype = _as_dtype(given)
    if dtype is not None:
        _check_dtype(where, name, dtype)
        return Column(name, index, dtype, "" if dtype == tf.string else None)
    value, dtype = _default_value(where, name, given, guessed)
    _check_dtype(where, name, dtype)
    return Column(name, index, dtype, value)


def _as_dtype(given: Any) -> tf.DType | None:
    if isinstance(given, tf.DType):
        return given
    if isinstance(given, type):
        return _PYTHON_TYPES.get(given) or tf.as_dtype(given)
    return None


def _default_value(where: str, name: str, given: Any, guessed: tf.DType) -> tuple[Any, tf.DType]:
    if isinstance(given, (str, bytes)):
        return given, tf.string
    if isinstance(given, (int, float)) and not isinstance(given, bool):
        fits_integers = isinstance(given, int)
        if guessed in (tf.float32, tf.int64) and (fits_integers or guessed == tf.float32):
            return given, guessed
        return given, tf.int64 if fits_integers else tf.float32
    array = np.asarray(given)
    if array.dtype.kind not in "iufSUO" or array.size > 1:
        raise InputError(
            f"{where}: column_defaults[{name!r}] must be a type such as tf.float32, or the value "
            f"for missing fields (a number or a text), given: {given!r}."
        )
    dtype = tf.as_dtype(given.dtype) if hasattr(given, "dtype") else tf.as_dtype(array.dtype)
    if array.size == 0:  # make_csv_dataset's way to say that a value is required
        return None, dtype
    return array.reshape(()).item(), dtype


def _check_dtype(where: str, name: str, dtype: tf.DType) -> None:
    if dtype not in _DTYPES:
        raise InputError(
            f"{where}: column {name!r} cannot be read as {dtype.name}; a CSV column is one of "
            f"{', '.join(accepted.name for accepted in _DTYPES)}. Read it as one of these and "
            "convert it in model_fn, or with Dataset.map."
        )


def _guess_types(columns: int, sample: Iterable[Sequence[str]], na_value: str) -> list[tf.DType]:
    """int64 where all values are integers, float32 where all are numbers, else string."""
    guessed: list[tf.DType | None] = [None] * columns
    for row in sample:
        if len(row) != columns:  # broken; reading it will say so
            continue
        for i, field in enumerate(row):
            if guessed[i] != tf.string and field not in ("", na_value):
                guessed[i] = _wider(guessed[i], field)
    return [tf.string if dtype is None else dtype for dtype in guessed]


def _wider(dtype: tf.DType | None, field: str) -> tf.DType:
    if dtype in (None, tf.int64) and _INTEGER.fullmatch(field) and abs(int(field)) < 2**63:
        return tf.int64
    return tf.float32 if is_number(field) else tf.string


def is_number(field: str) -> bool:
    """Whether a field can be read as a number; Python's own 1_000 cannot.

    >>> is_number("1e3"), is_number("1_000"), is_number("")
    (True, False, False)
    """
    try:
        float(field)
    except ValueError:
        return False
    return "_" not in field
