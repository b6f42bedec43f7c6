"""Columns of a pyarrow Table as the inputs of a signature, without a look at single rows.

Where a column is not quite what the model takes, there is no answer from here, and the rows are
converted one by one: that way knows more, and says what is wrong with which row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from estimand.core.errors import InputError
from estimand.export.loaded.arrays import TensorInfo
from estimand.export.loaded.rows import AnySignature, examples_input
from estimand.inputs.records import columns as features
from estimand.inputs.records import encoding


def inputs_of_table(
    signature: AnySignature, table: Any, schema: Mapping[str, Any]
) -> dict[str, Any] | None:
    """The inputs of one call; None where rows have to be looked at."""
    examples = examples_input(signature)
    if examples is not None and examples not in table.column_names:
        serialized = _examples(table, schema)
        return None if serialized is None else {examples: serialized}
    inputs = {name: _array(table, info) for name, info in signature.inputs.items()}
    return None if any(array is None for array in inputs.values()) else inputs


def table_of_rows(rows: Sequence[Mapping[str, Any]], names: Iterable[str]) -> Any:
    """Rows as a table of those names that any of them has; None where they cannot be one.

    >>> table_of_rows([{"a": 1}, {"a": 2.5, "b": "x"}], ["a", "b", "c"]).to_pydict()
    {'a': [1.0, 2.5], 'b': [None, 'x']}
    """
    if len(rows) < 2:
        return None  # nothing to be gained
    try:
        import pyarrow
    except ImportError:
        return None
    values = {name: [row.get(name) for row in rows] for name in names}
    there = {name: column for name, column in values.items() if any(v is not None for v in column)}
    try:
        return pyarrow.table(there) if there else None
    except (pyarrow.ArrowException, TypeError, ValueError, OverflowError):
        return None


def _array(table: Any, info: TensorInfo) -> np.ndarray | None:
    if info.kind or info.name not in table.column_names:
        return None
    array = _values(table.column(info.name).combine_chunks(), info.dtype == "string")
    if array is not None and array.ndim == 1 and (info.shape or ())[1:] == (1,):
        return array.reshape(-1, 1)
    return array


def _values(column: Any, text: bool) -> np.ndarray | None:
    """A column without missing values; lists of one length as a second dimension."""
    import pyarrow
    from pyarrow import compute, types

    if column.null_count:
        return None
    if types.is_list(column.type) or types.is_fixed_size_list(column.type):
        sizes = compute.list_value_length(column).unique().to_pylist()
        inner = _values(column.flatten(), text) if len(sizes) == 1 else None
        return None if inner is None else inner.reshape(len(column), sizes[0], *inner.shape[1:])
    if text != _is_text(column.type):
        return None
    if text:
        return column.cast(pyarrow.binary()).to_numpy(zero_copy_only=False)
    return column.to_numpy(zero_copy_only=False) if _is_number(column.type) else None


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    return types.is_string(kind) or types.is_binary(kind) or types.is_large_string(kind)


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)


# ------------------------------------------------------------------ tf.Examples


def _examples(table: Any, schema: Mapping[str, Any]) -> list[bytes] | None:
    encoded: dict[str, features.Column] = {}
    for name, info in schema.items():
        if name not in table.column_names:
            if info.get("required"):
                return None
            continue
        column = _feature(table.column(name).combine_chunks(), info)
        if column is None:
            return None
        encoded[name] = column
    return encoding.serialized_examples(encoded, table.num_rows) if encoded else None


def _feature(column: Any, info: Mapping[str, Any]) -> features.Column | None:
    from pyarrow import compute

    text = info["dtype"] == "string"
    if text and _is_text(column.type):  # an empty one is a missing one, as in a row
        column = compute.if_else(compute.equal(compute.binary_length(column), 0), None, column)
    if column.null_count and info.get("required"):
        return None
    values = _values(column.drop_null(), text)
    kind = features.BYTES if text else _KINDS.get(info["dtype"], features.INT64)
    if values is None:
        return None
    try:
        encoded = features.encode(values, kind)
    except InputError:
        return None
    if not column.null_count:
        return encoded
    present = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))
    return dataclasses.replace(encoded, rows=present)


_KINDS = {name: features.FLOAT for name in ("float16", "float32", "float64", "bfloat16")}
