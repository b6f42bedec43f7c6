"""Rows answered by a loaded model, a batch after the other: behind `estimand predict`."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core.errors import InputError
from estimand.export.loaded.composites import rows_of
from estimand.export.loaded.loading import LoadedModel, Signature
from estimand.export.loaded.row_files import Row
from estimand.export.loaded.rows import inputs_of_rows, plain_column


def choose_signature(model: LoadedModel, name: str | None) -> Signature:
    """The signature of that name, or the default one."""
    if name is None:
        return model.default
    if name not in model.signatures:
        raise InputError(
            f"There is no signature {name!r} in {model.directory}. "
            f"There are: {', '.join(sorted(model.signatures))}."
        )
    return model.signatures[name]


def predict_rows(
    model: LoadedModel, signature: Signature, rows: Iterable[Row], batch_size: int
) -> Iterator[dict[str, Any]]:
    """One dict of plain values per row."""
    schema = schema_of(model)
    source = iter(rows)
    done = 0
    while batch := list(itertools.islice(source, batch_size)):
        inputs = inputs_of_rows(signature, batch, schema, done)
        columns = columns_of(signature, called(signature, inputs, done, len(batch)), len(batch))
        plain = {name: plain_column(column) for name, column in columns.items()}
        for i in range(len(batch)):
            yield {name: values[i] for name, values in plain.items()}
        done += len(batch)


def schema_of(model: LoadedModel) -> dict[str, Any]:
    """What types the features of its tf.Examples have, as `inputs_of_rows` takes it."""
    described = model.card.get("features", {}).get("infer", {}).get("features", {})
    return {**described, **model.features}


def columns_of(
    signature: Signature, outputs: Mapping[str, Any], rows: int
) -> dict[str, Sequence[Any]]:
    """The outputs of a call as values for each row."""
    return {name: _column(signature, name, value, rows) for name, value in outputs.items()}


def _column(signature: Signature, name: str, value: Any, rows: int) -> Sequence[Any]:
    """An output as a value for each row."""
    column = list(rows_of(value)) if signature.outputs[name].kind else value
    shape = (len(column),) if isinstance(column, list) else np.shape(column)
    if shape[:1] != (rows,):
        raise InputError(
            f"The output {name!r} of signature {signature.name!r} has shape {shape} for {rows} "
            "rows: it does not give one value per row. Choose another signature."
        )
    return column


def called(
    signature: Signature, inputs: Mapping[str, Any], first: int, count: int
) -> dict[str, np.ndarray]:
    """What the signature answers; an error of the model itself says which rows it was given."""
    try:
        return signature(inputs)
    except tf.errors.InvalidArgumentError as error:
        # What went wrong stands on the line before the first "[[{{node ...}}]]".
        what = error.message.split("[[{{")[0].strip().splitlines()[-1]
        raise InputError(
            f"Signature {signature.name!r} cannot use rows {first + 1} to {first + count}: {what}"
        ) from error
