"""An export or an estimator, and rows for it, as columns and a function that answers them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from estimand.core.errors import InputError
from estimand.core.names import did_you_mean
from estimand.estimator.estimator import Estimator
from estimand.export.loaded.loading import LoadedModel, Signature, rows_in
from estimand.export.loaded.predict_rows import choose_signature
from estimand.export.loaded.rows import inputs_of_rows
from estimand.report import sample

Columns = dict[str, np.ndarray]
Answers = Mapping[str, np.ndarray]
# What is looked at if nobody says: probabilities rather than logits.
_OUTPUTS = ("probabilities", "scores", "predictions", "outputs", "logistic", "logits")
_ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class ModelOnColumns:
    """Columns with a value for each row, and the model as a function of such columns."""

    columns: Columns
    call: Callable[[Columns], Answers]

    def answers(self, columns: Columns) -> Answers:
        """All outputs, asked for in parts."""
        count = len(next(iter(columns.values())))
        parts = []
        for start in range(0, count, _ROWS_AT_ONCE):
            end = start + _ROWS_AT_ONCE
            parts.append(self.call({name: values[start:end] for name, values in columns.items()}))
        return {key: np.concatenate([np.asarray(part[key]) for part in parts]) for key in parts[0]}

    def output(self, columns: Columns, name: str) -> np.ndarray:
        """One output as a table of numbers, a row for each row."""
        values = self.answers(columns)[name]
        return values.reshape(len(values), -1).astype(np.float64)

    def output_name(self, answers: Answers, asked: str | None) -> str:
        numbers = [key for key, value in answers.items() if value.dtype.kind in "iuf"]
        if asked is not None and asked not in numbers:
            raise InputError(
                f"The model has no output {asked!r} of numbers; it has {', '.join(numbers)}."
                f"{did_you_mean(asked, numbers)}"
            )
        if not numbers:
            raise InputError("The model answers no numbers, so there is nothing to explain.")
        return asked or next((key for key in _OUTPUTS if key in numbers), numbers[0])


def of(model: Estimator | LoadedModel, rows: Any, signature: str | None) -> ModelOnColumns:
    """The model and the rows, whatever they are."""
    if isinstance(model, Estimator):
        columns = {name: np.asarray(values) for name, values in _columns(rows).items()}
        nobody = np.zeros(len(next(iter(columns.values()))))
        return ModelOnColumns(
            columns, lambda changed: sample.answers(model, sample.Sample(changed, nobody))
        )
    return _of_export(model, choose_signature(model, signature), rows)


def _of_export(model: LoadedModel, signature: Signature, rows: Any) -> ModelOnColumns:
    named = rows_in(rows)
    if named is None:
        columns = {name: np.asarray(values) for name, values in _columns(rows).items()}
        return ModelOnColumns(columns, signature)
    schema = {
        **model.card.get("features", {}).get("infer", {}).get("features", {}),
        **model.features,
    }
    inputs = inputs_of_rows(signature, named, schema)
    if len(signature.inputs) > 1 or not schema or set(inputs) <= set(named[0]):
        return ModelOnColumns(
            {name: np.asarray(values) for name, values in inputs.items()}, signature
        )
    # It takes tf.Examples: columns are the features in them, written anew for each call.
    columns = {name: _objects([row.get(name) for row in named]) for name in named[0]}

    def call(changed: Columns) -> Answers:
        count = len(next(iter(changed.values())))
        again = [{name: values[i] for name, values in changed.items()} for i in range(count)]
        return signature(inputs_of_rows(signature, again, schema))

    return ModelOnColumns(columns, call)


def _columns(rows: Any) -> Mapping[str, Any]:
    if hasattr(rows, "columns") and hasattr(rows, "to_dict"):
        return {str(name): _numbers_or_texts(rows[name]) for name in rows.columns}
    if isinstance(rows, Mapping) and rows:
        return rows
    if isinstance(rows, Sequence) and rows and isinstance(rows[0], Mapping):
        return {name: [row[name] for row in rows] for name in rows[0]}
    raise InputError(
        f"Rows to explain are a DataFrame, a list of dicts, or a dict of columns; given: "
        f"{type(rows).__name__}."
    )


def _numbers_or_texts(series: Any) -> np.ndarray:
    values = series.to_numpy()
    return values if values.dtype.kind in "iufb" else values.astype(str)


def _objects(values: list[Any]) -> np.ndarray:
    """One object for each row, also if they are lists of the same length."""
    column: np.ndarray = np.empty(len(values), dtype=object)
    column[:] = values
    return column
