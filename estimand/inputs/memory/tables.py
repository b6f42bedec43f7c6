"""`table_input_fn`: Arrow, Polars and pandas tables in memory; and columns as arrays."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core.errors import InputError, MissingExtraError
from estimand.inputs.broken_data import check_on_error
from estimand.inputs.csv.columns import check_known
from estimand.inputs.memory import arrays as memory
from estimand.inputs.order import Order
from estimand.inputs.sources import note_source

_WHERE = "table_input_fn"


def table_input_fn(
    table: Any,
    batch_size: int = 128,
    label_name: str | None = None,
    *,
    select_columns: Sequence[str] | None = None,
    column_defaults: Mapping[str, Any] | None = None,
    numeric_default: float | None = None,
    num_epochs: int | None = None,
    shuffle: bool | None = None,
    seed: int | None = None,
    drop_remainder: bool = False,
    on_error: str = "raise",
) -> TableInputFn:
    """An input function over a table in memory: pyarrow, Polars, pandas, a dict of columns.

    Anything that can hand itself over as Arrow data is a table. The arguments are those of
    `parquet_input_fn`.

    Args:
      table: a table of pyarrow, Polars or pandas, or a dict of columns.
      batch_size: how many rows a batch has.
      label_name: the column that is the label; None: there is none.
      select_columns: the columns to read; None: all.
      column_defaults: by column, a type or the value that stands for a missing one.
      numeric_default: the same for all columns of numbers.
      num_epochs: how often to read the data; None: for ever in training.
      shuffle: whether to mix the rows; None: in training.
      seed: of the shuffling.
      drop_remainder: whether to leave out a last batch with fewer rows.
      on_error: "raise", or "skip" to leave broken rows out and count them.

    >>> read = table_input_fn({"age": [31, 47], "rich": [0, 1]}, label_name="rich")
    >>> features, labels = next(iter(read(mode="eval")))
    >>> features["age"].numpy().tolist(), labels.numpy().tolist()
    ([31, 47], [0, 1])
    """
    check_on_error(_WHERE, on_error)
    order = Order(batch_size, num_epochs, shuffle, seed=seed, drop_remainder=drop_remainder)
    arrow = as_arrow(table)
    columns = TableColumns.choose(
        _WHERE, arrow.schema, select_columns, label_name, column_defaults, numeric_default
    )
    return TableInputFn(arrow, order, columns, on_error)


@dataclasses.dataclass(frozen=True)
class TableInputFn:
    """What `table_input_fn` returns: call it for a Dataset."""

    table: Any  # of pyarrow
    order: Order
    columns: TableColumns
    on_error: str

    def __call__(
        self,
        mode: str | None = None,
        input_context: tf.distribute.InputContext | None = None,
    ) -> tf.data.Dataset:
        skipped = Skipped(_WHERE, "the table", self.on_error)
        arrays = skipped.take(self.columns, self.table, lambda row: f"row {row}")
        note_source(skipped)
        return from_memory(
            _WHERE, self.columns.split(arrays), self.order.for_mode(mode), input_context
        )


def as_arrow(table: Any) -> Any:
    """Any kind of table as a pyarrow Table."""
    pyarrow = load_pyarrow("reading tables")
    if isinstance(table, pyarrow.Table):
        return table
    if hasattr(table, "collect") and hasattr(table, "lazy"):  # a query of Polars, not run yet
        table = table.collect()
    try:
        if hasattr(table, "iloc"):  # the index of pandas is no column
            return pyarrow.Table.from_pandas(table, preserve_index=False)
        return pyarrow.table(table)
    except (TypeError, ValueError, pyarrow.ArrowException) as error:
        raise InputError(
            f"{_WHERE}: a table must be a pyarrow Table, a Polars or pandas DataFrame, or a dict "
            f"of columns; given: {type(table).__name__} ({error})."
        ) from error


def as_numbers(table: Any) -> Any:
    """A pyarrow Table whose dates, times and decimals are the numbers that models are given.

    >>> import datetime, pyarrow
    >>> as_numbers(pyarrow.table({"day": [datetime.date(1970, 1, 3)]})).to_pydict()
    {'day': [2]}
    """
    pyarrow = load_pyarrow("reading tables")
    for i, field in enumerate(table.schema):
        kind, column = field.type, table.column(i)
        if pyarrow.types.is_dictionary(kind):
            column = column.cast(kind.value_type)
            kind = kind.value_type
        if pyarrow.types.is_temporal(kind):
            column = _time_as_int(column)
        elif pyarrow.types.is_decimal(kind):
            column = column.cast(pyarrow.float64())
        if column.type != field.type:
            table = table.set_column(i, field.name, column)
    return table


def load_pyarrow(purpose: str) -> Any:
    try:
        import pyarrow
    except ImportError:
        raise MissingExtraError(purpose, "parquet", "pyarrow") from None
    return pyarrow


def from_memory(
    where: str, data: Any, order: Order, context: tf.distribute.InputContext | None
) -> tf.data.Dataset:
    """Batches of (features, labels) or features that are arrays."""
    features, labels = data if isinstance(data, tuple) else (data, None)
    if context is not None and context.num_input_pipelines > 1:
        own = slice(context.input_pipeline_id, None, context.num_input_pipelines)
        features = {name: array[own] for name, array in features.items()}
        labels = None if labels is None else labels[own]
    if not len(next(iter(features.values()))):
        raise InputError(f"{where}: there are no rows.")
    epochs = None if order.endless else order.num_epochs
    settled = memory._Order(
        order.batch_size, epochs, bool(order.shuffle), order.seed, order.drop_remainder
    )
    return memory._batches(features, labels, settled, where)


@dataclasses.dataclass(frozen=True)
class TableColumns:
    """The columns of Arrow tables that are read, as what, and what stands for a missing value."""

    where: str
    names: tuple[str, ...]
    types: tuple[Any, ...]  # of Arrow
    defaults: tuple[Any, ...]  # None: a value must be there
    label_name: str | None

    @classmethod
    def choose(
        cls,
        where: str,
        schema: Any,
        select: Sequence[str] | None,
        label_name: str | None,
        defaults: Mapping[str, Any] | None,
        numeric_default: float | None,
    ) -> TableColumns:
        names = list(schema.names if select is None else select)
        check_known(where, "select_columns", names, schema.names)
        check_known(where, "column_defaults", defaults or {}, schema.names)
        if label_name is not None:
            check_known(where, "label_name", [label_name], names)
        if not names:
            raise InputError(f"{where}: there are no columns to read.")
        types = [schema.field(name).type for name in names]
        for name, kind in zip(names, types, strict=True):
            _check_type(where, name, kind)
        given = dict(defaults or {})
        filled = [
            given.get(name, "" if _is_text(kind) else numeric_default)
            for name, kind in zip(names, types, strict=True)
        ]
        return cls(where, tuple(names), tuple(types), tuple(filled), label_name)

    def arrays(self, table: Any) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """(arrays by name, which rows lack a value that must be there)"""
        broken = np.zeros(table.num_rows, bool)
        arrays = {}
        for name, default in zip(self.names, self.defaults, strict=True):
            column = table.column(name).combine_chunks()
            if column.null_count and default is None:
                broken |= column.is_null().to_numpy(zero_copy_only=False)
            arrays[name] = _as_array(self.where, name, column, default)
        return arrays, broken

    def first_missing(self, table: Any, row: int) -> str:
        """The column of a broken row that has no value."""
        pairs = zip(self.names, self.defaults, strict=True)
        return next(
            name
            for name, default in pairs
            if default is None and not table.column(name)[row].is_valid
        )

    def split(self, arrays: Mapping[str, Any]) -> Any:
        features = dict(arrays)
        if self.label_name is None:
            return features
        labels = features.pop(self.label_name)
        if not features:
            raise InputError(f"{self.where}: no column is left beside {self.label_name!r}.")
        return features, labels


class Skipped:
    """Rows that cannot be used: an error, or left out and counted. Kept in Python."""

    def __init__(self, where: str, of: str, on_error: str) -> None:
        self._where = where
        self._of = of
        self._raises = on_error == "raise"
        self._new = [0, 0]  # rows seen, rows skipped, since the last report
        self._first: tuple[tuple[int, int], str] | None = None
        self._lock = threading.Lock()  # parts of a stream may be read side by side
        self._errors: list[InputError] = []

    def take(
        self,
        columns: TableColumns,
        table: Any,
        place: Callable[[int], str],
        at: tuple[int, int] = (0, 0),
    ) -> dict[str, np.ndarray]:
        """The arrays of a table without its broken rows; `at` tells where its first row stands."""
        arrays, broken = columns.arrays(table)
        self.see(table.num_rows)
        if not broken.any():
            return arrays
        row = int(broken.argmax())
        name = columns.first_missing(table, row)
        what = f"{place(row)}, column {name!r}: the value is missing"
        remedy = (
            f"Say what stands for it, column_defaults={{{name!r}: 0}}, or for all columns of "
            "numbers: numeric_default=0."
        )
        self.count(int(broken.sum()), what, remedy, (at[0], at[1] + row))
        return {key: array[~broken] for key, array in arrays.items()}

    def count(self, rows: int, what: str, remedy: str = "", at: tuple[int, int] = (0, 0)) -> None:
        """Note that rows are left out, or raise."""
        if self._raises:
            error = InputError(
                f"{self._where}: {what}. {remedy}{' ' if remedy else ''}"
                "To leave broken rows out and have them counted, pass on_error='skip'."
            )
            self._errors.append(error)
            raise error
        with self._lock:
            self._new[1] += rows
            self._first = min(self._first or (at, what), (at, what))

    def see(self, rows: int) -> None:
        with self._lock:
            self._new[0] += rows

    def explain_error(self, error: BaseException) -> Exception | None:
        # Parts may be read ahead, and broken ones met out of order: which one was it?
        return next((raised for raised in self._errors if str(raised) in str(error)), None)

    def report_skipped(self) -> str | None:
        with self._lock:
            (seen, skipped), self._new = self._new, [0, 0]
        if not skipped or self._first is None:
            return None
        return f"Skipped {skipped:,} of {seen:,} rows of {self._of}: first {self._first[1]}."


def _is_text(kind: Any) -> bool:
    types = load_pyarrow("reading tables").types
    if types.is_dictionary(kind):
        return _is_text(kind.value_type)
    return any(
        test(kind)
        for test in (
            types.is_string,
            types.is_large_string,
            types.is_string_view,
            types.is_binary,
            types.is_large_binary,
            types.is_binary_view,
            types.is_fixed_size_binary,
        )
    )


def _is_number(kind: Any) -> bool:
    types = load_pyarrow("reading tables").types
    if types.is_dictionary(kind):
        return _is_number(kind.value_type)
    primitive = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    return primitive or types.is_decimal(kind) or types.is_temporal(kind)


def _check_type(where: str, name: str, kind: Any) -> None:
    types = load_pyarrow("reading tables").types
    if types.is_fixed_size_list(kind) and _is_number(kind.value_type):
        return
    if not _is_text(kind) and not _is_number(kind):
        hint = (
            "If all its lists have the same length, cast it to a fixed size list"
            if types.is_list(kind) or types.is_large_list(kind)
            else "Leave it out with select_columns"
        )
        raise InputError(
            f"{where}: column {name!r} is of type {kind}. Columns are numbers, booleans, dates, "
            f"texts, or lists of a fixed size. {hint}."
        )


def dtype_of(kind: Any) -> tuple[tf.DType, list[int]]:
    """(type, shape of one row) of what `_as_array` makes of a column without missing values."""
    types = load_pyarrow("reading tables").types
    if types.is_dictionary(kind):
        return dtype_of(kind.value_type)
    if types.is_fixed_size_list(kind):
        return dtype_of(kind.value_type)[0], [kind.list_size]
    if _is_text(kind):
        return tf.string, []
    if types.is_temporal(kind):
        return tf.int64, []
    if types.is_decimal(kind):
        return tf.float64, []
    return tf.as_dtype(kind.to_pandas_dtype()), []


def _as_array(where: str, name: str, column: Any, default: Any) -> np.ndarray:
    pyarrow = load_pyarrow("reading tables")
    types, kind = pyarrow.types, column.type
    if types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if types.is_fixed_size_list(kind):
        # The lists of missing rows hold nothing that means anything; such rows are left out.
        filled = column.fill_null([0] * kind.list_size) if column.null_count else column
        values = _as_array(where, name, filled.flatten(), default)
        return values.reshape(len(column), kind.list_size)
    if _is_text(kind):
        texts = column.cast(pyarrow.large_binary())
        missing = default.encode() if isinstance(default, str) else default
        return texts.fill_null(missing or b"").to_numpy(zero_copy_only=False)
    if types.is_temporal(kind):
        column = _time_as_int(column)
    elif types.is_decimal(kind):
        column = column.cast(pyarrow.float64())
    if column.null_count:
        column = _filled(where, name, column, 0 if default is None else default)
    return column.to_numpy(zero_copy_only=False)


def _time_as_int(column: Any) -> Any:
    """Dates in days, times and timestamps in their own unit."""
    pyarrow = load_pyarrow("reading tables")
    if column.type.bit_width == 32:
        return column.cast(pyarrow.int32()).cast(pyarrow.int64())
    return column.cast(pyarrow.int64())


def _filled(where: str, name: str, column: Any, default: Any) -> Any:
    pyarrow = load_pyarrow("reading tables")
    try:
        return column.fill_null(pyarrow.scalar(default).cast(column.type))
    except (pyarrow.ArrowException, TypeError, ValueError) as error:
        raise InputError(
            f"{where}: {default!r} cannot stand for missing values of column {name!r}, which is "
            f"of type {column.type}."
        ) from error
