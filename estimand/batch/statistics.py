"""What the values of each feature are like, gathered while they are written.

Those of a shard are noted with it, and joined when all are done.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from estimand.inputs.records.columns import BYTES, Column
from estimand.inputs.records.schemas import Feature, Schema

_MOST_COUNTED = 1000  # different texts; of more, none are counted any more
_LONGEST_COUNTED = 100  # bytes
_SHOWN = 20


@dataclasses.dataclass
class FeatureStatistics:
    """Of one feature.

    Attributes:
      kinds: "bytes", "float" or "int64".
      records: how many have it, with at least one value.
      fewest, most: how many values a record has that has it.
      numbers: how many numbers there are; with `mean`, `squares` (the sum of squared distances
        from the mean), `least` and `greatest` of those that are finite.
      zeros, not_finite: how many of the numbers are.
      longest: bytes of the longest text.
      texts: how often each occurs; None: there are too many different ones.
    """

    kinds: list[str] = dataclasses.field(default_factory=list)
    records: int = 0
    fewest: int | None = None
    most: int = 0
    numbers: int = 0
    mean: float = 0.0
    squares: float = 0.0
    least: float | None = None
    greatest: float | None = None
    zeros: int = 0
    not_finite: int = 0
    longest: int = 0
    texts: dict[str, int] | None = dataclasses.field(default_factory=dict)

    def join(self, other: FeatureStatistics) -> None:
        """What was seen elsewhere was seen here as well."""
        self.kinds = sorted({*self.kinds, *other.kinds})
        self.records += other.records
        self.fewest = _of_known(min, self.fewest, other.fewest)
        self.most = max(self.most, other.most)
        self._join_numbers(other)
        self.longest = max(self.longest, other.longest)
        self.texts = _joined(self.texts, other.texts)

    def _join_numbers(self, other: FeatureStatistics) -> None:
        mine, theirs = self.numbers - self.not_finite, other.numbers - other.not_finite
        if theirs:  # as Chan et al. join variances, without large sums that lose digits
            apart = other.mean - self.mean
            self.mean += apart * theirs / (mine + theirs)
            self.squares += other.squares + apart * apart * mine * theirs / (mine + theirs)
        self.numbers += other.numbers
        self.zeros += other.zeros
        self.not_finite += other.not_finite
        self.least = _of_known(min, self.least, other.least)
        self.greatest = _of_known(max, self.greatest, other.greatest)

    def described(self, records: int) -> dict[str, Any]:
        """For people and programs that read it."""
        told: dict[str, Any] = {
            "kind": self.kinds[0] if len(self.kinds) == 1 else self.kinds,
            "records": self.records,
            "missing": records - self.records,
            "values": [self.fewest or 0, self.most],
        }
        finite = self.numbers - self.not_finite
        if self.numbers:
            told |= {"zeros": self.zeros, "not_finite": self.not_finite}
        if finite:
            told |= {"mean": self.mean, "std": math.sqrt(self.squares / finite)}
            told |= {"min": self.least, "max": self.greatest}
        if BYTES in self.kinds:
            ranked = sorted((self.texts or {}).items(), key=lambda pair: (-pair[1], pair[0]))
            told |= {"longest": self.longest, "top": ranked[:_SHOWN]}
            told["different"] = None if self.texts is None else len(self.texts)
        return told


def _of_known(choose: Any, *values: Any) -> Any:
    known = [value for value in values if value is not None]
    return choose(known) if known else None


def _joined(mine: dict[str, int] | None, theirs: dict[str, int] | None) -> dict[str, int] | None:
    if mine is None or theirs is None:
        return None
    both = {text: mine.get(text, 0) + theirs.get(text, 0) for text in {**mine, **theirs}}
    return both if len(both) <= _MOST_COUNTED else None


def of_column(values: Any, column: Column) -> FeatureStatistics:
    """Of the values that were encoded as this column."""
    given = values if column.rows is None else [values[i] for i in column.rows]
    if isinstance(given, np.ndarray) and given.dtype != object:
        counts = [given.size // len(given)] * len(given) if len(given) else []
        flat: Sequence[Any] | np.ndarray = given.reshape(-1)
    else:
        lists = [_flat(value) for value in given]
        counts = [len(values) for values in lists]
        flat = list(itertools.chain.from_iterable(lists))
    seen = FeatureStatistics(
        [column.kind] if len(flat) else [],
        sum(count > 0 for count in counts),
        min(counts, default=None),
        max(counts, default=0),
    )
    if column.kind == BYTES:
        _see_texts(seen, flat)
    elif len(flat):
        _see_numbers(seen, np.asarray(flat, np.float64))
    return seen


def _flat(value: Any) -> Sequence[Any]:
    if isinstance(value, np.ndarray):
        return value.reshape(-1).tolist()
    if not isinstance(value, list | tuple):
        return [value]
    return list(itertools.chain.from_iterable(map(_flat, value)))


def _see_numbers(seen: FeatureStatistics, values: np.ndarray) -> None:
    finite = values[np.isfinite(values)]
    seen.numbers = values.size
    seen.not_finite = values.size - finite.size
    seen.zeros = int((finite == 0).sum())
    if finite.size:
        seen.mean = float(finite.mean())
        seen.squares = float(((finite - seen.mean) ** 2).sum())
        seen.least, seen.greatest = float(finite.min()), float(finite.max())


def _see_texts(seen: FeatureStatistics, values: Iterable[Any]) -> None:
    counts: dict[str, int] | None = {}
    for value in values:
        data = value.encode() if isinstance(value, str) else bytes(value)
        seen.longest = max(seen.longest, len(data))
        if counts is not None and len(data) <= _LONGEST_COUNTED:
            text = data.decode(errors="replace")
            counts[text] = counts.get(text, 0) + 1
            counts = counts if len(counts) <= _MOST_COUNTED else None
        else:
            counts = None
    seen.texts = counts


class Statistics:
    """Of all features, by name."""

    def __init__(self) -> None:
        self.features: dict[str, FeatureStatistics] = {}

    def join(self, others: dict[str, FeatureStatistics]) -> None:
        for name, other in others.items():
            self.features.setdefault(name, FeatureStatistics()).join(other)

    def noted(self) -> dict[str, Any]:
        return {name: dataclasses.asdict(feature) for name, feature in self.features.items()}

    @classmethod
    def of_notes(cls, notes: Iterable[dict[str, Any]]) -> Statistics:
        """Of all shards together."""
        made = cls()
        for note in notes:
            made.join({name: FeatureStatistics(**feature) for name, feature in note.items()})
        return made

    def described(self, records: int) -> dict[str, Any]:
        features = {
            name: feature.described(records) for name, feature in sorted(self.features.items())
        }
        return {"records": records, "features": features}

    def schema(self, records: int) -> Schema:
        """As `est.records.schema` finds it by reading the files."""
        features = {
            name: Feature(
                set(feature.kinds), feature.records, feature.fewest, feature.most, feature.longest
            )
            for name, feature in sorted(self.features.items())
        }
        return Schema(records, True, features, {})
