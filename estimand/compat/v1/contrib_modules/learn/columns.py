"""Feature columns in the ready-made models of `tf.contrib.learn`, and what variables are called.

`fit(x, y)` with a matrix gives features without a name, which the column with the name "" reads.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from estimand.compat.v1.contrib_modules.layers.column_variables import UNNAMED
from estimand.compat.v1.contrib_modules.layers.columns import real_valued_column
from estimand.compat.v1.contrib_modules.learn import feeding
from estimand.core.errors import InputError


def infer_real_valued_columns_from_input(x: Any) -> list[Any]:
    """A column for a matrix, or one for each matrix of a dict."""
    if isinstance(x, Mapping):
        return [_real_valued(key, feeding.feature_array(x[key])) for key in sorted(x)]
    return [_real_valued("", feeding.feature_array(x))]


def infer_real_valued_columns_from_input_fn(input_fn: Callable[[], Any]) -> list[Any]:
    """The same for what an input function gives."""
    with tf.Graph().as_default():
        given = input_fn()
        spec = given.element_spec if isinstance(given, tf.data.Dataset) else given
        features = spec[0] if isinstance(spec, tuple) else spec
        return real_valued_columns(features)


def real_valued_columns(features: Any) -> list[Any]:
    """A column for a tensor, or one for each of a dict."""
    if isinstance(features, Mapping):
        return [_real_valued(key, features[key]) for key in sorted(features)]
    return [_real_valued("", features)]


def _real_valued(name: str, values: Any) -> Any:
    dtype = tf.as_dtype(values.dtype)
    if not (dtype.is_floating or dtype.is_integer):
        raise InputError(
            f"Columns can be inferred of numbers only, but {name!r} has {dtype.name}. Name the "
            "columns: feature_columns=[tf.contrib.layers.sparse_column_with_keys(...), ...]."
        )
    size = 1
    for dimension in values.shape[1:]:
        size *= int(dimension)
    return real_valued_column(name, dimension=size, dtype=dtype)


def features_and_columns(features: Any, columns: Any) -> tuple[dict[str, Any], list[Any]]:
    """Features by name, and columns that find them; without columns, all are real-valued."""
    chosen = real_valued_columns(features) if columns is None else list(columns)
    named = dict(features) if isinstance(features, Mapping) else {"": features}
    if "" in named:
        named[UNNAMED] = named.pop("")
        chosen = [_renamed(column) for column in chosen]
    return named, chosen


def _renamed(column: Any) -> Any:
    """A column that reads the unnamed feature, under the name that it has here."""
    if not hasattr(column, "_replace"):
        return UNNAMED if column == "" else column
    changes: dict[str, Any] = {}
    for field, value in zip(column._fields, column, strict=True):
        if field == "key" and value == "":
            changes[field] = UNNAMED
        elif hasattr(value, "_fields"):
            changes[field] = _renamed(value)
        elif field == "keys":  # of a cross
            changes[field] = tuple(_renamed(one) for one in value)
    return column._replace(**changes)
