"""What the answers of boosted trees rest on: contributions of features, along the trees' ways.

A row walks down the trees one after the other. At each node the answer so far is what the trees
before have given, and what the examples of training that came to this node had on average; the
difference that a question makes is the contribution of the feature it asks about. Together with
the answer before the first question, the bias, they are the prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from estimand.canned.forest.table import Column


@dataclass(frozen=True)
class Explanations:
    """Rows of a batch, explained.

    Attributes:
      bias: of all rows.
      contributions: [rows], by feature.
    """

    bias: float
    contributions: Mapping[str, np.ndarray]

    def rows(self) -> Iterator[dict[str, Any]]:
        """`bias` and `dfc`, directional feature contributions, the largest first."""
        count = len(next(iter(self.contributions.values())))
        for row in range(count):
            each = {name: float(values[row]) for name, values in self.contributions.items()}
            ordered = sorted(each.items(), key=lambda item: -abs(item[1]))
            yield {"bias": self.bias, "dfc": dict(ordered)}


def explain(
    model: Any, columns: Sequence[Column], table: Sequence[np.ndarray], *, as_probability: bool
) -> Explanations:
    """Explain the predictions of a ydf model of boosted trees with one output.

    Args:
      columns: of the table, in the order in which the model was trained on them.
      table: their values, [rows] each.
      as_probability: the contributions are to that of the second class, not to the logit.
    """
    activation = _sigmoid if as_probability else _same
    way = _Way(model, columns, table, activation)
    for tree in model.iter_trees():
        way.walk(tree.root)
    bias = activation(np.asarray(model.initial_predictions(), np.float64))[0]
    return Explanations(float(bias), way.contributions)


def importances(model: Any, columns: Sequence[Column], *, normalize: bool) -> dict[str, float]:
    """How much the questions about each feature lowered the loss, the largest first."""
    gains = {column.feature: 0.0 for column in columns}
    for gain, name in model.variable_importances()["SUM_SCORE"]:
        gains[columns[_place(name)].feature] += gain
    total = sum(gains.values()) if normalize else 1.0
    ordered = sorted(gains.items(), key=lambda item: -item[1])
    return {name: gain / (total or 1.0) for name, gain in ordered}


class _Way:
    """All rows of a table on their way down the trees."""

    def __init__(
        self,
        model: Any,
        columns: Sequence[Column],
        table: Sequence[np.ndarray],
        activation: Callable[[np.ndarray], np.ndarray],
    ) -> None:
        spec = model.data_spec()
        places = {i: _place(c.name) for i, c in enumerate(spec.columns) if _is_ours(c.name)}
        self._columns = {i: columns[place] for i, place in places.items()}
        self._values = {
            i: _encoded(spec.columns[i], columns[place], table[place])
            for i, place in places.items()
        }
        rows = len(table[0])
        self._activation = activation
        self._past = np.full(rows, float(model.initial_predictions()[0]))
        self._last = activation(self._past)
        self.contributions = {column.feature: np.zeros(rows) for column in columns}

    def walk(self, root: Any) -> None:
        stack = [(root, np.arange(len(self._past)))]
        while stack:
            node, rows = stack.pop()
            if node.is_leaf:
                self._past[rows] += node.value.value
                continue
            asked = node.condition.attribute
            yes = _answers(node.condition, self._values[asked][rows])
            feature = self._columns[asked].feature
            for child, taken in ((node.pos_child, rows[yes]), (node.neg_child, rows[~yes])):
                now = self._activation(self._past[taken] + _mean(child)[0])
                self.contributions[feature][taken] += now - self._last[taken]
                self._last[taken] = now
                stack.append((child, taken))


def _mean(node: Any) -> tuple[float, float]:
    """The value of a node, and of how many examples; that of its leaves if it has none itself."""
    if node.value is not None:
        return node.value.value, node.value.num_examples
    parts = [_mean(child) for child in (node.pos_child, node.neg_child)]
    count = sum(part[1] for part in parts)
    return sum(value * part for value, part in parts) / (count or 1.0), count


def _answers(condition: Any, values: np.ndarray) -> np.ndarray:
    missing = np.isnan(values)
    kind = type(condition).__name__
    if kind == "IsMissingInCondition":
        return missing
    if kind == "CategoricalIsInCondition":
        yes = np.isin(values, list(condition.mask))
    else:
        yes = np.greater_equal(values, condition.threshold, where=~missing, out=missing.copy())
    return np.where(missing, bool(condition.missing), yes)


def _encoded(spec: Any, column: Column, values: np.ndarray) -> np.ndarray:
    """Numbers; of words their ids, 0 for one never seen; NaN for what is missing."""
    if not column.is_text:
        return np.asarray(values, np.float32)
    ids = {word: float(item.index) for word, item in spec.categorical.items.items()}
    known = {word.encode(): number for word, number in ids.items()} | {b"": np.nan}
    return np.array([known.get(value, 0.0) for value in values], np.float32)


def _is_ours(name: str) -> bool:
    return name.startswith("column_")


def _place(name: str) -> int:
    return int(name.removeprefix("column_"))


def _same(logits: np.ndarray) -> np.ndarray:
    return np.array(logits)


def _sigmoid(logits: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-logits))
