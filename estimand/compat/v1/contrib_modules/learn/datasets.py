"""`tf.contrib.learn.datasets`: tables out of files that lie here; nothing is downloaded."""

from __future__ import annotations

import csv
import os
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from estimand.core.errors import InputError


class Dataset(NamedTuple):
    """Rows, and what is to be predicted of them."""

    data: Any
    target: Any


class Datasets(NamedTuple):
    """Rows to train on, and others."""

    train: Any
    validation: Any
    test: Any


def load_csv_with_header(
    filename: str, target_dtype: Any, features_dtype: Any, target_column: int = -1
) -> Dataset:
    """A file whose first line begins with the numbers of rows and of features."""
    with tf.io.gfile.GFile(filename) as file:
        lines = csv.reader(file)
        header = next(lines)
        rows = list(lines)
    made = _dataset(rows, target_dtype, features_dtype, target_column)
    told = tuple(int(number) for number in header[:2])
    if made.data.shape != told:
        raise InputError(
            f"{filename}: its first line says {told[0]} rows of {told[1]} features, but there are "
            f"{made.data.shape[0]} of {made.data.shape[1]}. A file without such a line is read by "
            "load_csv_without_header."
        )
    return made


def load_csv_without_header(
    filename: str, target_dtype: Any, features_dtype: Any, target_column: int = -1
) -> Dataset:
    """A file of rows."""
    with tf.io.gfile.GFile(filename) as file:
        rows = list(csv.reader(file))
    return _dataset(rows, target_dtype, features_dtype, target_column)


def _dataset(rows: list[list[str]], target_dtype: Any, dtype: Any, column: int) -> Dataset:
    rows = [list(row) for row in rows if row]
    targets = [row.pop(column) for row in rows]
    return Dataset(_numbers(rows, dtype), _numbers(targets, target_dtype))


def _numbers(texts: Any, dtype: Any) -> np.ndarray:
    kind = np.dtype(dtype)
    if kind.kind in "iu":  # "1.0" is no integer to NumPy
        return np.asarray(texts, np.float64).astype(kind)
    return np.asarray(texts, kind)


def maybe_download(filename: str, work_directory: str, source_url: str) -> str:
    """The path of a file in a directory."""
    path = os.path.join(work_directory, filename)
    if not tf.io.gfile.exists(path):
        raise InputError(
            f"There is no file {path}, and nothing is downloaded here. Put it there: {source_url}"
        )
    return path


def load_iris(data_path: str | None = None) -> Dataset:
    """150 flowers: of a file with a header, or those that scikit-learn has."""
    if data_path:
        return load_csv_with_header(data_path, np.int64, np.float64)
    return _of_sklearn("load_iris")


def load_boston(data_path: str | None = None) -> Dataset:
    """Prices of houses, of a file with a header."""
    if data_path:
        return load_csv_with_header(data_path, np.float64, np.float64)
    raise InputError(
        "load_boston: the data is in no package any more. Give its file: load_boston(data_path)."
    )


def load_dataset(name: str, size: str = "small", test_with_fake_data: bool = False) -> Any:
    """A dataset by its name: 'iris', 'boston', 'mnist'."""
    from estimand.compat.v1 import mnist

    del size, test_with_fake_data
    if name == "iris":
        return load_iris()
    if name == "boston":
        return load_boston()
    return mnist.load_dataset(name)


def _of_sklearn(function: str) -> Dataset:
    try:
        from sklearn import datasets
    except ImportError:
        raise InputError(
            f"{function} reads the data of scikit-learn: pip install scikit-learn; or give the "
            f"path of a file, {function}(data_path)."
        ) from None
    loaded = getattr(datasets, function)()
    return Dataset(loaded.data, loaded.target)
