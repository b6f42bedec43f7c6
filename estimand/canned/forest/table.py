"""Features as a table of columns, numbers and words: what decision trees ask about."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from estimand.core.errors import InputError

_NOTE = "estimand_columns.json"


@dataclass(frozen=True)
class Column:
    """One column of the table; a feature of several numbers has as many columns."""

    name: str
    is_text: bool
    feature: str  # of which it is a part


def note_columns(folder: str, columns: Sequence[Column]) -> None:
    """Write down which columns a model in `folder` was trained on: it knows their numbers only."""
    with open(os.path.join(folder, _NOTE), "w") as file:
        json.dump([dataclasses.asdict(column) for column in columns], file)


def noted_columns(folder: str) -> list[Column]:
    try:
        with open(os.path.join(folder, _NOTE)) as file:
            return [Column(**noted) for noted in json.load(file)]
    except FileNotFoundError:
        raise InputError(
            f"The forest in {folder} was grown before its columns were noted: train it again."
        ) from None


def columns_of(
    who: str, features: Any, names: Sequence[str] | None, without: str | None
) -> tuple[list[Column], list[tf.Tensor]]:
    """The columns and their values, [batch] each, sorted by name of the feature."""
    if not isinstance(features, Mapping):
        features = {"features": features}
    chosen = sorted(key for key in features if key != without) if names is None else names
    if not chosen:
        raise InputError(f"{who} got no features. Let input_fn return a dict of them.")
    columns: list[Column] = []
    values: list[tf.Tensor] = []
    for name in chosen:
        if name not in features:
            raise InputError(
                f"{who}: there is no feature {name!r}. input_fn gives: {sorted(features)}."
            )
        for column, value in _parts(who, name, features[name]):
            columns.append(column)
            values.append(value)
    return columns, values


def _parts(who: str, name: str, value: Any) -> list[tuple[Column, tf.Tensor]]:
    if isinstance(value, (tf.SparseTensor, tf.RaggedTensor)):
        raise InputError(
            f"{who} takes dense features, but {name!r} is a {type(value).__name__}. Make it dense "
            "in input_fn: tf.sparse.to_dense(...) or .to_tensor()."
        )
    tensor = tf.convert_to_tensor(value)
    if tensor.shape.rank == 2 and tf.compat.dimension_value(tensor.shape[1]) == 1:
        tensor = tensor[:, 0]
    is_text = tensor.dtype == tf.string
    if tensor.shape.rank == 1:
        return [(Column(name, is_text, name), tensor if is_text else tf.cast(tensor, tf.float32))]
    if tensor.shape.rank != 2 or tf.compat.dimension_value(tensor.shape[1]) is None:
        raise InputError(
            f"{who} takes features of shape [batch] or [batch, n]; {name!r} has {tensor.shape}."
        )
    if not is_text:
        tensor = tf.cast(tensor, tf.float32)
    return [(Column(f"{name}.{i}", is_text, name), tensor[:, i]) for i in range(tensor.shape[1])]
