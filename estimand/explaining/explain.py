"""`explain`: by how much answers change without a column, or what each value contributes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from estimand.core.errors import ConfigError, InputError, MissingExtraError
from estimand.estimator.estimator import Estimator
from estimand.explaining import asking
from estimand.explaining.asking import ModelOnColumns
from estimand.export.loaded.loading import LoadedModel, load_model
from estimand.report import classification, regression
from estimand.report.importance import Importance, by_shuffling
from estimand.report.sample import Sample

_METHODS = ("permutation", "shapley")
_BACKGROUND = 50  # rows that stand for "this value is not known"


@dataclass(frozen=True)
class Explanation:
    """What was found: the columns, the most important first; of Shapley values also each row's."""

    what: str
    ranking: list[Importance]
    columns: list[str] = field(default_factory=list)
    values: np.ndarray | None = None  # rows x columns: what each value adds to the answer
    base: np.ndarray | None = None  # of each row: the answer if nothing were known

    def __str__(self) -> str:
        width = max(len(importance.column) for importance in self.ranking)
        lines = [
            f"{importance.column:<{width}}  {importance.loss:.4g}" for importance in self.ranking
        ]
        return "\n".join([self.what, *lines])


def explain(
    model: Estimator | LoadedModel | str | os.PathLike[str],
    rows: Any,
    labels: Any = None,
    *,
    method: str = "permutation",
    signature: str | None = None,
    output: str | None = None,
    background: Any = None,
    seed: int = 0,
) -> Explanation:
    """Say which columns a model's answers rest on.

    "permutation" shuffles one column after another: with labels, importance is what the model
    loses (accuracy, or root mean square error added); without, by how much its answers change.
    "shapley" says for each row what each value adds to the answer, by the package shap.

    Args:
      model: an export, its path, or an estimator.
      rows: a DataFrame, a list of dicts, or a dict of columns.
      labels: one for each row, or the name of the column that they are.
      method: "permutation" or "shapley".
      signature: of the export; None: the default one.
      output: which answer to look at; None: probabilities or predictions. Of two classes the
        second is explained by Shapley values, of several the one that the row gets.
      background: rows that Shapley values compare with; None: some of `rows`.
      seed: of the shuffling.

    >>> import estimand as est, numpy as np
    >>> x = np.random.default_rng(0).normal(size=(200, 2)).astype("float32")
    >>> read = est.inputs.numpy_input_fn(
    ...     {"a": x[:, 0], "b": x[:, 1]}, 3 * x[:, 0], num_epochs=None, shuffle=True
    ... )
    >>> columns = [est.feature_column.numeric_column(name) for name in ("a", "b")]
    >>> model = est.LinearRegressor(columns, optimizer="Adam").train(read, max_steps=50)
    >>> explanation = est.explain(model, {"a": x[:, 0], "b": x[:, 1]}, labels=3 * x[:, 0])
    >>> [importance.column for importance in explanation.ranking]
    ['a', 'b']
    """
    if method not in _METHODS:
        raise ConfigError(f"method must be one of {', '.join(_METHODS)}, given: {method!r}.")
    if isinstance(labels, str):
        rows, labels = split(rows, labels)
    with contextlib.ExitStack() as loaded:
        if not isinstance(model, Estimator | LoadedModel):
            model = loaded.enter_context(load_model(model))
        asked = asking.of(model, rows, signature)
        if method == "shapley":
            others = asked if background is None else asking.of(model, background, signature)
            return _shapley(asked, others.columns, output, seed)
        if labels is None:
            return _by_change(asked, output, seed)
        return _by_score(asked, _as_numbers(labels), seed)


def split(rows: Any, label: str) -> tuple[Any, Any]:
    """The rows without the column of the labels, and the labels.

    >>> split([{"x": 1, "y": 0}, {"x": 2, "y": 1}], "y")
    ([{'x': 1}, {'x': 2}], [0, 1])
    """
    is_list = isinstance(rows, Sequence)
    there = list(rows[0]) if is_list and rows else list(rows)  # of a DataFrame its columns
    if label not in there:
        raise InputError(f"There is no column {label!r} of labels; there are {', '.join(there)}.")
    if is_list:
        rest = [{name: row[name] for name in row if name != label} for row in rows]
        return rest, [row[label] for row in rows]
    if isinstance(rows, Mapping):
        return {name: rows[name] for name in there if name != label}, rows[label]
    return rows.drop(columns=[label]), rows[label]


# ------------------------------------------------------------------ by shuffling


def _by_score(asked: ModelOnColumns, labels: np.ndarray, seed: int) -> Explanation:
    def judged(columns: asking.Columns) -> Any:
        answers = dict(asked.answers(columns))
        if "scores" in answers and np.shape(answers.get("classes")) == answers["scores"].shape:
            # As signatures of classifiers call them.
            answers = {"probabilities": answers["scores"], "all_classes": answers["classes"]}
        return classification.judge(labels, answers) or regression.judge(labels, answers)

    whole = judged(asked.columns)
    if whole is None:
        keys = ", ".join(sorted(asked.answers(asked.columns)))
        raise InputError(
            f"The answers {keys} cannot be held against labels: a classifier gives "
            "'probabilities', 'scores' or 'classes', a regression 'predictions'. Without labels, "
            "explain says by how much the answers change."
        )
    is_classifier = isinstance(whole, classification.Judged)
    what = "accuracy lost" if is_classifier else "root mean square error added"
    ranking = by_shuffling(
        Sample(asked.columns, labels), lambda changed: judged(changed.features).score(), seed
    )
    return Explanation(f"{what} when the column is shuffled", ranking)


def _by_change(asked: ModelOnColumns, output: str | None, seed: int) -> Explanation:
    name = asked.output_name(asked.answers(asked.columns), output)
    before = asked.output(asked.columns, name)

    def score(changed: Sample) -> float:
        return -float(np.abs(asked.output(changed.features, name) - before).mean())

    ranking = by_shuffling(Sample(asked.columns, np.zeros(len(before))), score, seed)
    return Explanation(f"mean change of {name!r} when the column is shuffled", ranking)


def _as_numbers(labels: Sequence[Any]) -> np.ndarray:
    """Of a CSV file numbers come as texts."""
    values = np.asarray(labels)
    if values.dtype.kind not in "OUS":
        return values
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        return values.astype(str)
    return numbers.astype(np.int64) if (numbers == numbers.round()).all() else numbers


# ------------------------------------------------------------------ Shapley values


def _shapley(
    asked: ModelOnColumns, others: asking.Columns, output: str | None, seed: int
) -> Explanation:
    """By shap, which sees a table of numbers: each cell the number of the row it is taken from.

    So columns may hold words, lists or pictures.
    """
    shap = _shap()
    name = asked.output_name(asked.answers(asked.columns), output)
    names = list(asked.columns)
    count, known = len(asked.columns[names[0]]), len(others[names[0]])
    all_rows = {key: np.concatenate([asked.columns[key], others[key]]) for key in names}

    def answer(cells: np.ndarray) -> np.ndarray:
        taken = np.asarray(cells).astype(np.int64)
        return asked.output({n: all_rows[n][taken[:, i]] for i, n in enumerate(names)}, name)

    random = np.random.default_rng(seed)
    chosen = count + random.permutation(known)[:_BACKGROUND]
    masker = shap.maskers.Independent(np.tile(chosen[:, None], len(names)), max_samples=_BACKGROUND)
    explainer = shap.explainers.Permutation(answer, masker, seed=seed)
    here = np.tile(np.arange(count)[:, None], len(names))
    explained = explainer(here, max_evals=max(10 * len(names), 2 * len(names) + 1), silent=True)
    values, base = _of_target(
        explained.values, explained.base_values, asked.output(asked.columns, name)
    )
    ranking = [
        Importance(column, float(np.abs(v).mean()), float(v.min()), float(v.max()))
        for column, v in zip(names, values.T, strict=True)
    ]
    ranking.sort(key=lambda importance: -importance.loss)
    what = f"mean size of what the column adds to {name!r}"
    return Explanation(what, ranking, names, values, base)


def _of_target(
    values: np.ndarray, base: np.ndarray, answers: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Of several outputs (rows x columns x outputs) that of the class in question."""
    if values.ndim == 2:
        return values, np.broadcast_to(np.reshape(base, [-1]), [len(values)])
    outputs = values.shape[2]
    target = answers.argmax(axis=1) if outputs > 2 else np.full(len(values), outputs - 1)
    rows = np.arange(len(values))
    base = np.broadcast_to(base, [len(values), outputs])
    return values[rows, :, target], base[rows, target]


def _shap() -> Any:
    try:
        import shap
    except ImportError as error:
        raise MissingExtraError("Shapley values", "shap") from error
    return shap
