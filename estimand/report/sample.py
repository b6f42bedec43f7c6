"""Rows with their labels, kept in memory, and what a model answers to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.core.errors import InputError
from estimand.core.modes import ModeKeys
from estimand.estimator.estimator import Estimator
from estimand.inputs.contract import call_input_fn

Features = dict[str, np.ndarray]

_BATCH = 512


@dataclass(frozen=True)
class Sample:
    """The first rows of an evaluation's input."""

    features: Features
    labels: np.ndarray

    def __len__(self) -> int:
        return len(self.labels)

    def with_column(self, name: str, values: np.ndarray) -> Sample:
        """The same rows with other values in one column."""
        return Sample({**self.features, name: values}, self.labels)


def take(estimator: Estimator, input_fn: Callable[..., Any], rows: int) -> Sample:
    """Up to `rows` rows of what `input_fn` gives for an evaluation.

    Raises:
      InputError: rows cannot be told apart: no labels, several labels, sparse or ragged features.
    """
    given = call_input_fn(
        input_fn, mode=ModeKeys.EVAL, params=estimator.params, config=estimator.config
    )
    batches, count = [], 0
    for element in given.dataset:
        features, labels = given.unpack(element)
        batches.append((_columns(features), _labels(labels)))
        count += len(batches[-1][1])
        if count >= rows:
            break
    if not batches:
        raise InputError("A report cannot judge the model: its evaluation input has no rows.")
    columns = {
        name: np.concatenate([features[name] for features, _ in batches])[:rows]
        for name in batches[0][0]
    }
    return Sample(columns, np.concatenate([labels for _, labels in batches])[:rows])


def answers(
    estimator: Estimator, sample: Sample, checkpoint: str | None = None
) -> dict[str, np.ndarray]:
    """What the model predicts for the rows, by key of its predictions; by default the newest."""

    def input_fn() -> tf.data.Dataset:
        whole: Any = sample.features
        if list(whole) == [""]:
            whole = whole[""]
        return tf.data.Dataset.from_tensor_slices(whole).batch(_BATCH)

    batches = list(
        estimator.predict(input_fn, checkpoint_path=checkpoint, yield_single_examples=False)
    )
    if not isinstance(batches[0], Mapping):
        batches = [{"predictions": batch} for batch in batches]
    return {
        key: np.concatenate([np.atleast_1d(batch[key]) for batch in batches]) for key in batches[0]
    }


def _columns(features: Any) -> Features:
    if not isinstance(features, Mapping):
        features = {"": features}  # a single tensor has no name
    for name, value in features.items():
        if not isinstance(value, tf.Tensor):
            raise InputError(
                f"A report cannot judge the model row by row: the feature {name!r} is a "
                f"{type(value).__name__}; it takes dense features."
            )
    return {name: value.numpy() for name, value in features.items()}


def _labels(labels: Any) -> np.ndarray:
    if isinstance(labels, Mapping) and len(labels) == 1:
        (labels,) = labels.values()
    if not isinstance(labels, tf.Tensor):
        raise InputError(
            "A report cannot judge the model: it takes one dense label for each row, and the "
            f"evaluation input gives {type(labels).__name__}."
        )
    values = labels.numpy()
    if values.size != len(values):
        raise InputError(
            "A report cannot judge the model: it takes one label for each row, and the evaluation "
            f"input gives labels of shape {list(values.shape[1:])} for each, such as one-hot ones; "
            "give the number or the name of the class."
        )
    return values.reshape(-1)
