"""Rows with their labels, kept in memory, and what a model answers to them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
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
_MOST_PARTS = 8


class NotJudgedError(InputError):
    """The rows are fine for the model, and answers to them cannot be told right from wrong."""


@dataclass(frozen=True)
class Sample:
    """The first rows of an evaluation's input, with labels of one kind.

    Args:
      head: whose answers these labels are for, where there are several.
      position: which of several numbers in a row of its answers.
    """

    features: Features
    labels: np.ndarray
    head: str | None = None
    position: int | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def title(self) -> str:
        """Which of the model's answers are meant; empty if there is but one."""
        return " ".join(str(part) for part in (self.head, self.position) if part is not None)

    def with_column(self, name: str, values: np.ndarray) -> Sample:
        """The same rows with other values in one column."""
        return dataclasses.replace(self, features={**self.features, name: values})

    def only(self, chosen: np.ndarray) -> Sample:
        """Some of the rows."""
        features = {name: values[chosen] for name, values in self.features.items()}
        return dataclasses.replace(self, features=features, labels=self.labels[chosen])

    def of_answers(self, given: Mapping[Any, np.ndarray]) -> dict[str, np.ndarray]:
        """Those of a model's answers that these labels are for."""
        if self.head is not None:
            given = {key[1]: value for key, value in given.items() if key[0] == self.head}
        if self.position is None:
            return dict(given)
        columns = {
            key: value[:, self.position]
            for key, value in given.items()
            if value.ndim == 2 and value.shape[1] > self.position
        }
        # Each of several labels is a yes or no of its own.
        return {"probability" if k == "probabilities" else k: v for k, v in columns.items()}


def take(estimator: Estimator, input_fn: Callable[..., Any], rows: int) -> list[Sample]:
    """Up to `rows` rows of what `input_fn` gives for an evaluation, once for each kind of label.

    Raises:
      NotJudgedError: rows cannot be told apart: no labels, sparse or ragged features.
    """
    given = call_input_fn(
        input_fn, mode=ModeKeys.EVAL, params=estimator.params, config=estimator.config
    )
    batches: list[tuple[dict[Any, np.ndarray], dict[Any, np.ndarray]]] = []
    count = 0
    for element in given.dataset:
        features, labels = given.unpack(element)
        batches.append((_columns(features), _labels(labels)))
        count += len(next(iter(batches[-1][1].values())))
        if count >= rows:
            break
    if not batches:
        raise InputError("A report cannot judge the model: its evaluation input has no rows.")

    def together(part: int) -> dict[Any, np.ndarray]:
        return {
            name: np.concatenate([batch[part][name] for batch in batches])[:rows]
            for name in batches[0][part]
        }

    columns, by_head = together(0), together(1)
    return [
        Sample(columns, labels, head, position)
        for head, values in by_head.items()
        for position, labels in _one_for_each_row(values)
    ]


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
    return sample.of_answers(
        {key: np.concatenate([np.atleast_1d(b[key]) for b in batches]) for key in batches[0]}
    )


def _columns(features: Any) -> Features:
    if not isinstance(features, Mapping):
        features = {"": features}  # a single tensor has no name
    for name, value in features.items():
        if not isinstance(value, tf.Tensor):
            raise NotJudgedError(
                f"A report cannot judge the model row by row: the feature {name!r} is a "
                f"{type(value).__name__}; it takes dense features."
            )
    return {name: value.numpy() for name, value in features.items()}


def _labels(labels: Any) -> dict[str | None, np.ndarray]:
    """By head; of a single one without a name."""
    by_head = labels if isinstance(labels, Mapping) and len(labels) > 1 else {None: labels}
    if isinstance(labels, Mapping) and len(labels) == 1:
        by_head = {None: next(iter(labels.values()))}
    for given in by_head.values():
        if not isinstance(given, tf.Tensor):
            raise NotJudgedError(
                "A report cannot judge the model: it takes dense labels, and the evaluation input "
                f"gives {type(given).__name__}."
            )
    return {name: given.numpy() for name, given in by_head.items()}


def _one_for_each_row(values: np.ndarray) -> Iterator[tuple[int | None, np.ndarray]]:
    """Labels, one for each row; of several numbers in a row, each with its position."""
    if values.size == len(values):
        yield None, values.reshape(-1)
    elif values.ndim == 2 and _is_one_hot(values):
        yield None, values.argmax(axis=1)
    elif values.ndim == 2 and values.shape[1] <= _MOST_PARTS:
        yield from enumerate(values.T)
    else:
        raise NotJudgedError(
            "A report cannot judge the model: it takes one label for each row, a one-hot one, or "
            f"up to {_MOST_PARTS} numbers, and the evaluation input gives labels of shape "
            f"{list(values.shape[1:])} for each."
        )


def _is_one_hot(values: np.ndarray) -> bool:
    ones = values == 1
    return bool((ones | (values == 0)).all() and (ones.sum(axis=1) == 1).all())
