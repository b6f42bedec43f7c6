"""The weights of a model, as the newest checkpoint has them."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.engine.checkpoints import files

# What canned models and Keras layers call theirs; slots of optimizers have other endings.
_WEIGHTS = re.compile(
    r"(^|/)(kernel|bias|weights|bias_weights|embedding_weights|embeddings|gamma|beta)$"
)
_OF_COLUMN = re.compile(r"^linear/linear_model/(.+)/weights$")
_MOST_NUMBERS = 20_000_000  # of a table that is read for a report


@dataclass(frozen=True)
class Layer:
    """One variable, and how its numbers are spread."""

    name: str
    shape: list[int]
    mean: float
    spread: float
    least: float
    most: float


@dataclass(frozen=True)
class Weight:
    """What a linear model adds for a value of a column."""

    column: str
    value: str
    weight: float


def layers(model_dir: str) -> list[Layer]:
    """All weights that are not too large to be read."""
    return [
        Layer(
            name, list(values.shape), float(values.mean()), float(values.std()),
            float(values.min()), float(values.max()),
        )
        for name, values in _read(model_dir)
    ]  # fmt: skip


def of_linear_model(model_dir: str, columns: Mapping[str, Any]) -> list[Weight]:
    """The weights of the linear part of a canned model, the largest first.

    Args:
      columns: feature columns by name, which know what the rows of their weights stand for.
    """
    weights = []
    for name, values in _read(model_dir):
        if (match := _OF_COLUMN.match(name)) and values.ndim == 2:
            column = match[1]
            values_of = _values(columns.get(column), len(values))
            for (row, output), weight in np.ndenumerate(values):
                of_class = f" → class {output}" if values.shape[1] > 1 else ""
                weights.append(Weight(column, values_of[row] + of_class, float(weight)))
    return sorted(weights, key=lambda weight: -abs(weight.weight))


def columns_of(settings: Iterable[Any]) -> dict[str, Any]:
    """The feature columns among what an estimator was made with, by name."""
    lists = [given for given in settings if isinstance(given, list | tuple | set | frozenset)]
    given = [
        column for columns in lists for column in columns if hasattr(column, "parse_example_spec")
    ]
    return {column.name: column for column in given}


def _read(model_dir: str) -> Iterable[tuple[str, np.ndarray]]:
    checkpoint = files.latest_checkpoint(model_dir)
    if checkpoint is None:
        return
    reader = tf.train.load_checkpoint(checkpoint)
    shapes, kinds = reader.get_variable_to_shape_map(), reader.get_variable_to_dtype_map()
    for name in sorted(shapes):
        count = int(np.prod(shapes[name]))
        is_slot = name.startswith("training/")
        if (
            _WEIGHTS.search(name)
            and not is_slot
            and kinds[name].is_floating
            and 0 < count <= _MOST_NUMBERS
        ):
            yield name, reader.get_tensor(name).astype(np.float64)


def _values(column: Any, rows: int) -> list[str]:
    """What the rows of a column's weights stand for; numbers where it does not say."""
    column = getattr(column, "categorical_column", column)  # weighted ones wrap another
    if column is None or rows == 1:
        return ["" if rows == 1 else str(row) for row in range(rows)]
    known: list[str] = []
    if vocabulary := getattr(column, "vocabulary_list", None):
        known = [_text(word) for word in vocabulary]
    elif boundaries := getattr(column, "boundaries", None):
        between = [f"{low:g} to {high:g}" for low, high in itertools.pairwise(boundaries)]
        known = [f"below {boundaries[0]:g}", *between, f"from {boundaries[-1]:g}"]
    return [known[row] if row < len(known) else str(row) for row in range(rows)]


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
