"""Rows as inputs of a signature, and what it answers as plain values."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from estimand.core.errors import InputError
from estimand.core.interpreter.deferred import deferred
from estimand.core.names import did_you_mean, listed
from estimand.export.loaded.arrays import TensorInfo
from estimand.export.loaded.reading import SPARSE
from estimand.export.loaded.row_files import Row

if TYPE_CHECKING:
    import tensorflow as tf
else:
    tf = deferred("tensorflow")


class AnySignature(Protocol):
    """What is needed of a signature, wherever its model runs."""

    @property
    def name(self) -> str: ...

    @property
    def inputs(self) -> Mapping[str, TensorInfo]: ...


def inputs_of_rows(
    signature: AnySignature,
    rows: Sequence[Row],
    schema: Mapping[str, Any],
    first: int = 0,
    *,
    names_are_known: bool = False,
) -> dict[str, Any]:
    """The inputs of one call; `schema` says what types the features of tf.Examples have.

    `first` is the number of rows before these, for messages. `names_are_known`: those of the rows
    have been looked at, among more rows than these.
    """
    examples = examples_input(signature)
    if isinstance(rows[0], bytes):
        if examples is not None:
            return {examples: rows}
        return _parsed(signature, [row for row in rows if isinstance(row, bytes)])
    named = [row for row in rows if not isinstance(row, bytes)]
    if examples is not None and examples not in named[0]:
        if not names_are_known:
            refuse_misspelt(named, schema, first)
        return {examples: [example_of_row(row, schema, first + i) for i, row in enumerate(named)]}
    return {
        name: [_cell(row, info, first + i) for i, row in enumerate(named)]
        for name, info in signature.inputs.items()
    }


def examples_input(signature: AnySignature) -> str | None:
    """The name of its only input, if that can be serialized tf.Examples."""
    if len(signature.inputs) != 1:
        return None
    (only,) = signature.inputs.values()
    a_text_per_row = only.dtype == "string" and (only.shape is None or len(only.shape) == 1)
    return only.name if a_text_per_row else None


def _parsed(signature: AnySignature, records: Sequence[bytes]) -> dict[str, Any]:
    """Serialized examples as the inputs themselves."""
    spec = {name: _parse_spec(info) for name, info in signature.inputs.items()}
    try:
        parsed = tf.io.parse_example(list(records), spec)
    except tf.errors.InvalidArgumentError as error:
        raise InputError(
            f"A record does not have what signature {signature.name!r} takes: {error.message}"
        ) from error
    return {
        name: tf.cast(value, signature.inputs[name].dtype) if value.dtype != tf.string else value
        for name, value in parsed.items()
    }


def _parse_spec(info: TensorInfo) -> Any:
    dtype = tf.as_dtype(info.dtype)
    stored = tf.int64 if dtype.is_integer or dtype.is_bool else dtype
    stored = tf.float32 if dtype.is_floating else stored
    if info.kind == SPARSE:
        return tf.io.VarLenFeature(stored)
    if info.kind:
        return tf.io.RaggedFeature(stored, row_splits_dtype=tf.int64)
    return tf.io.FixedLenFeature([size or 1 for size in (info.shape or ())[1:]], stored)


def _cell(row: Mapping[str, Any], info: TensorInfo, number: int) -> Any:
    if row.get(info.name) is None and not (info.name in row and info.kind):
        there = [name for name, value in row.items() if value is not None]
        raise InputError(
            f"Row {number + 1} lacks {info.name!r}, which the signature takes as {info}. "
            f"It has: {listed(there)}.{did_you_mean(info.name, there)}"
        )
    where = f"Row {number + 1}, {info.name!r}"
    value = _converted(row[info.name], info.dtype, where, varying=info.kind is not None)
    if isinstance(value, list):
        return value
    if info.kind:  # a row with as many values as it has: here one, or none
        return [] if value in (b"", None) else [value]
    return [value] if (info.shape or (None,))[1:] == (1,) else value


def _converted(value: Any, dtype: str, where: str, varying: bool = False) -> Any:
    """A cell as the type the input takes. A list in a CSV cell is written as in JSON.

    `varying`: a row may have any number of values; an empty cell is none.
    """
    if isinstance(value, list):
        return [_converted(v, dtype, where) for v in value]
    if isinstance(value, str) and dtype != "string":
        text = value.strip()
        if not text and varying:
            return None
        if not text:
            raise InputError(f"{where}: the cell is empty, but the model takes a {dtype} there.")
        try:
            parsed = json.loads(text.lower() if text in ("True", "False") else text)
        except ValueError:
            parsed = None
        if isinstance(parsed, list):
            return _converted(parsed, dtype, where)
        if not isinstance(parsed, int | float):
            raise InputError(f"{where}: {value!r} is no {dtype}.")
        return parsed
    if isinstance(value, dict) and set(value) == {"b64"}:
        return base64.b64decode(value["b64"])
    if isinstance(value, str):
        return value.encode()
    return value


def refuse_misspelt(
    rows: Sequence[Mapping[str, Any]], schema: Mapping[str, Any], first: int = 0
) -> None:
    """Complain of a feature that no row has, where the rows have something else instead.

    It has a default, behind which a misspelt name would hide.
    A feature of any number of values has no default: a row without it is a row with none of them.
    There, only a name that is much alike tells that it was meant.
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    unknown = [name for name in names if name not in schema]
    for name, info in schema.items():
        meant = did_you_mean(name, unknown)
        silent = not info.get("required") and ("default" in info or meant)
        if unknown and name not in names and silent:
            raise _required(name, info, dict.fromkeys(names), first)


def example_of_row(row: Mapping[str, Any], schema: Mapping[str, Any], number: int = 0) -> bytes:
    """A serialized tf.Example. Types that the schema does not tell are those of the values."""
    features = {}
    for name, value in row.items():
        if value in ("", None):
            continue  # missing: the parse spec of the model may have a default
        dtype = schema.get(name, {}).get("dtype") or _guessed_dtype(value)
        values = _converted(value, dtype, f"Row {number + 1}, {name!r}")
        features[name] = _feature(np.array(values).ravel().tolist(), dtype)
    for name, info in schema.items():
        if info.get("required") and name not in features:
            raise _required(name, info, row, number)
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def _required(
    name: str, info: Mapping[str, Any], row: Mapping[str, Any], number: int
) -> InputError:
    if name in row:
        return InputError(
            f"Row {number + 1}, {name!r}: the cell is empty, but the model takes a {info['dtype']} "
            "there and has no default for it."
        )
    taken = f"Row {number + 1} lacks {name!r}, which the model takes as {info['dtype']}"
    if info.get("required"):
        return InputError(
            f"{taken} and has no default for. It has: {listed(row)}.{did_you_mean(name, row)}"
        )
    return InputError(
        f"{taken}. It has: {listed(row)}.{did_you_mean(name, row)} To let a feature be missing in "
        "all rows, give no names that the model does not know, or leave its value blank."
    )


def _guessed_dtype(value: Any) -> str:
    first = value[0] if isinstance(value, list) and value else value
    if isinstance(first, bool | int):
        return "int64"
    return "float32" if isinstance(first, float) else "string"


def _feature(values: list[Any], dtype: str) -> tf.train.Feature:
    kind = tf.as_dtype(dtype)
    if kind == tf.string:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))
    if kind.is_floating:
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    return tf.train.Feature(int64_list=tf.train.Int64List(value=map(int, values)))


# ------------------------------------------------------------------ outputs to rows


def plain_column(column: Any) -> list[Any]:
    """The `plain_value` of each, with one look at all of them where they are numbers.

    >>> plain_column(np.array([[0.1], [np.float32("nan")]], np.float32))
    [[0.1], ['NaN']]
    """
    if isinstance(column, np.ndarray) and column.dtype.kind in "iub":
        return column.tolist()
    is_float = isinstance(column, np.ndarray) and column.dtype in (np.float32, np.float64)
    if not is_float or not np.isfinite(column).all():
        return [plain_value(value) for value in column]
    if column.dtype == np.float32:  # as short as it reads back
        column = np.array([float(str(v)) for v in column.ravel()], np.float64).reshape(column.shape)
    return column.tolist()


def plain_value(value: Any) -> Any:
    """Without NumPy, and such that JSON can hold it."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(value).decode()}
    if isinstance(value, np.ndarray | list):
        return [plain_value(v) for v in value]
    if isinstance(value, np.floating | float) and not math.isfinite(value):
        # JSON has no numbers for these; the words are those of protobuf's JSON, and our reader's.
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, np.float32 | np.float16):
        return float(str(value))  # as short as it reads back: 0.1, not 0.10000000149011612
    return value.item() if isinstance(value, np.generic) else value
