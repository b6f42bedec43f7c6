"""What a model relies on: how much worse it gets when one column is shuffled; and slices."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from estimand.report.sample import Sample

_SHUFFLES = 3
_MOST_VALUES = 12
_BANDS = 4

Score = Callable[[Sample], float]


@dataclass(frozen=True)
class Importance:
    """What the score loses without the column, on average and at the extremes."""

    column: str
    loss: float
    least: float
    most: float


def by_shuffling(sample: Sample, score: Score, seed: int = 0) -> list[Importance]:
    """The columns, the most important first.

    A shuffled column keeps its values but no longer belongs to its rows, so that what the model
    loses is what it had learnt of this column.
    """
    whole, random = score(sample), np.random.default_rng(seed)
    rows = len(sample)
    ranking = []
    for name, values in sample.features.items():
        losses = [
            whole - score(sample.with_column(name, values[random.permutation(rows)]))
            for _ in range(_SHUFFLES)
        ]
        ranking.append(Importance(name, float(np.mean(losses)), min(losses), max(losses)))
    return sorted(ranking, key=lambda column: -column.loss)


@dataclass(frozen=True)
class Slice:
    """The rows with one value, or with values of a range, and how right the model is on them."""

    column: str
    value: str
    rows: int
    score: float


def slices(sample: Sample, row_scores: np.ndarray) -> list[Slice]:
    """The mean of `row_scores` by value of each column; numbers are cut into bands."""
    described = []
    for name, values in sample.features.items():
        if values.ndim > 2 or (values.ndim == 2 and values.shape[1] != 1):
            continue
        for label, chosen in _groups(values.reshape(-1)):
            described.append(
                Slice(name, label, int(chosen.sum()), float(row_scores[chosen].mean()))
            )
    return described


def _groups(values: np.ndarray) -> list[tuple[str, np.ndarray]]:
    missing = np.isnan(values) if values.dtype.kind == "f" else np.zeros(len(values), bool)
    groups = [("missing", missing)] if missing.any() else []
    distinct = np.unique(values[~missing])
    if len(distinct) <= _MOST_VALUES:
        return [*((_text(value), values == value) for value in distinct), *groups]
    if values.dtype.kind not in "iuf":
        return _most_frequent(values)
    edges = np.unique(np.quantile(values[~missing], np.linspace(0, 1, _BANDS + 1)))
    for low, high in itertools.pairwise(edges):
        last = high == edges[-1]
        chosen = (values >= low) & ((values <= high) if last else (values < high))
        if chosen.any():
            groups.append((f"{low:.4g} to {high:.4g}", chosen))
    return groups


def _most_frequent(values: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Of words; where each is another one, there is nothing to tell."""
    distinct, counts = np.unique(values, return_counts=True)
    order = np.argsort(-counts, kind="stable")[:_MOST_VALUES]
    return [(_text(distinct[k]), values == distinct[k]) for k in order if counts[k] > 1]


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
