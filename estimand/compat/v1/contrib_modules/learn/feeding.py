"""Arrays as input functions: what `fit(x, y)`, `evaluate(x, y)` and `predict(x)` read.

An x with one dimension becomes a column, a y with one column a vector, as they did.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core.errors import InputError


def input_fn_of(
    x: Any, y: Any, batch_size: int | None, *, shuffle: bool, endless: bool
) -> Callable[[], tf.data.Dataset]:
    """An input function of arrays, tables, dicts of arrays, or iterators of examples."""
    if _is_iterator(x):
        return _of_iterator(x, y, batch_size)
    features = _each(x, feature_array)
    labels = None if y is None else _each(y, label_array)
    rows = _rows(features, labels)

    def input_fn() -> tf.data.Dataset:
        both = features if labels is None else (features, labels)
        dataset = tf.data.Dataset.from_tensor_slices(both)
        if shuffle:
            dataset = dataset.shuffle(rows)
        dataset = dataset.batch(batch_size or rows)
        return dataset.repeat() if endless else dataset

    return input_fn


def feature_array(x: Any) -> np.ndarray:
    """An array of examples, each with at least one dimension."""
    array = _array(x)
    return array[:, np.newaxis] if array.ndim == 1 else array


def label_array(y: Any) -> np.ndarray:
    """An array of labels; where each is a single number, a vector of them."""
    array = _array(y)
    return array[:, 0] if array.ndim > 1 and array.shape[1] == 1 else array


def _array(values: Any) -> np.ndarray:
    if hasattr(values, "compute"):  # of dask
        values = values.compute()
    array = np.asarray(values)
    if array.dtype == object:
        first = array.reshape(-1)[0] if array.size else ""
        array = array.astype(str if isinstance(first, str | bytes) else np.float32)
    if array.ndim == 0:
        raise InputError(
            f"x and y must be arrays of examples, given: {values!r}. Pass a NumPy array, a table "
            "of pandas, or a dict of arrays; a function that reads goes in as input_fn=."
        )
    return array


def _each(values: Any, make: Callable[[Any], np.ndarray]) -> Any:
    if isinstance(values, Mapping):
        return {name: make(one) for name, one in values.items()}
    return make(values)


def _rows(features: Any, labels: Any) -> int:
    parts = [*_arrays("x", features), *_arrays("y", labels)]
    lengths = {name: len(array) for name, array in parts}
    if len(set(lengths.values())) != 1:
        raise InputError(f"x and y must have as many rows as each other, given: {lengths}.")
    count = next(iter(lengths.values()))
    if count == 0:
        raise InputError("x has no rows.")
    return count


def _arrays(name: str, values: Any) -> list[tuple[str, np.ndarray]]:
    if values is None:
        return []
    if isinstance(values, Mapping):
        return [(f"{name}[{key!r}]", value) for key, value in values.items()]
    return [(name, values)]


# Iterators: an example at a time, read once.


def _is_iterator(x: Any) -> bool:
    return hasattr(x, "__next__")


def _of_iterator(x: Any, y: Any, batch_size: int | None) -> Callable[[], tf.data.Dataset]:
    pairs = x if y is None else zip(x, y, strict=False)
    first = next(pairs, None)
    if first is None:
        raise InputError("x is an iterator that gives nothing.")
    spec = tf.nest.map_structure(tf.type_spec_from_value, _example(first, y is not None))

    def examples() -> Iterator[Any]:
        for one in itertools.chain([first], pairs):
            yield _example(one, y is not None)

    def input_fn() -> tf.data.Dataset:
        dataset = tf.data.Dataset.from_generator(examples, output_signature=spec)
        return dataset.batch(batch_size or 1)

    return input_fn


def _example(one: Any, labelled: bool) -> Any:
    if not labelled:
        return _each(one, np.atleast_1d)
    features, label = one
    return _each(features, np.atleast_1d), _each(label, lambda value: np.squeeze(np.asarray(value)))
