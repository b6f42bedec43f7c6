"""The sections on the model itself: what it gets wrong, and what it relies on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from estimand.estimator.estimator import Estimator
from estimand.report import classification, figures, importance, regression, sample
from estimand.report.page import Card, Cell, Section, Table
from estimand.report.sample import Sample

Judged = classification.Judged | regression.Judged

_MOST_MISTAKES = 20


def sections(estimator: Estimator, input_fn: Callable[..., Any], rows: int) -> list[Section]:
    """Ask the newest checkpoint for some rows, and judge what it says."""
    try:
        taken = sample.take(estimator, input_fn, rows)
    except sample.NotJudgedError as error:
        return [_not_judged("", str(error))]
    return [section for part in taken for section in _sections(estimator, part)]


def _sections(estimator: Estimator, rows: Sample) -> Iterable[Section]:
    """Of one head, or one of several labels."""
    answers = sample.answers(estimator, rows)
    judged = judge(rows, answers)
    if judged is None:
        keys = ", ".join(sorted(map(str, answers)))
        yield _not_judged(
            rows.title,
            f"The model's answers have the keys {keys}. To be judged here, a classifier gives "
            "'probabilities' or 'class_ids', a regression 'predictions'.",
        )
        return
    known = judged.is_finite
    if not known.any():
        yield _not_judged(rows.title, "None of the model's answers is a finite number.")
        return
    told = f"{len(rows):,} rows of the evaluation input, answered by the newest checkpoint."
    if not known.all():
        told += f" {np.sum(~known):,} answers are no finite numbers, and left out."
        rows = rows.only(known)
        judged = judge(rows, {key: values[known] for key, values in answers.items()})
        assert judged is not None  # some of the same
    cards = _classifier(judged) if isinstance(judged, classification.Judged) else _numbers(judged)
    of = f": {rows.title}" if rows.title else ""
    yield Section(_id("answers", rows), f"What it gets right and wrong{of}", list(cards), told)
    relied = list(_columns(estimator, rows, judged))
    yield Section(_id("columns", rows), f"What it relies on{of}", relied)


def judge(rows: Sample, answers: dict[str, np.ndarray]) -> Judged | None:
    """The answers beside the labels; None if they are of another kind."""
    return classification.judge(rows.labels, answers) or regression.judge(rows.labels, answers)


def _not_judged(of: str, text: str) -> Section:
    return Section(
        "answers", f"Answers: {of}" if of else "Answers", [Card("Not judged", text=text)]
    )


def _id(kind: str, rows: Sample) -> str:
    return f"{kind}-{rows.title.replace(' ', '-')}" if rows.title else kind


def _classifier(judged: classification.Judged) -> Iterable[Card]:
    is_drawn = len(judged.names) <= classification.MOST_DRAWN
    yield _confusion(judged) if is_drawn else _mistakes(judged)
    if judged.probabilities is None:
        return
    yield from _probabilities(judged)
    yield Card("How sure it is", figures.as_html(figures.probabilities(judged)))
    if rows := _thresholds(judged):
        columns = ["threshold", "accepted", "precision", "recall", "F1"]
        yield Card(f"From which probability of {judged.names[1]} on", table=Table(columns, rows))


def _confusion(judged: classification.Judged) -> Card:
    matrix = classification.confusion(judged)
    drawn = figures.confusion(matrix, judged.names)
    return Card(f"Confusion ({judged.accuracy:.1%} right)", figures.as_html(drawn))


def _mistakes(judged: classification.Judged) -> Card:
    rows = [
        [Cell(m.truth, "text"), Cell(m.answer), Cell(f"{m.rows:,}"), Cell(f"{m.share:.1%}")]
        for m in classification.mistakes(judged, _MOST_MISTAKES)
    ]
    title = f"The most frequent mistakes ({judged.accuracy:.1%} right)"
    return Card(title, table=Table(["it is", "the model says", "rows", "of its class"], rows))


def _probabilities(judged: classification.Judged) -> Iterable[Card]:
    roc, recall = classification.roc_curves(judged), classification.precision_recall_curves(judged)
    if roc:
        drawn = figures.lines(roc, "false positives", "true positives", diagonal="chance")
        yield Card("ROC (area)", figures.as_html(drawn))
        drawn = figures.lines(recall, "recall", "precision")
        yield Card("Precision and recall (average precision)", figures.as_html(drawn))
        drawn = figures.lines(
            classification.calibration(judged), "probability it gave", "share that was so",
            diagonal="ideal", markers=True,
        )  # fmt: skip
        yield Card("Calibration", figures.as_html(drawn))


def _thresholds(judged: classification.Judged) -> list[list[Cell]]:
    return [
        [
            Cell(f"{row.threshold:.1f}"),
            Cell(f"{row.accepted:.1%}"),
            Cell("" if row.precision is None else f"{row.precision:.1%}"),
            Cell(f"{row.recall:.1%}"),
            Cell("" if row.f1 is None else f"{row.f1:.3f}"),
        ]
        for row in classification.thresholds(judged)
    ]


def _numbers(judged: regression.Judged) -> Iterable[Card]:
    against, spread = figures.residuals(judged)
    explained = "" if judged.explained is None else f", R² {judged.explained:.3f}"
    yield Card(f"Predicted and true{explained}", figures.as_html(against))
    errors = f"root mean square {judged.root_mean_square:.4g}, mean {judged.mean_absolute:.4g}"
    yield Card(f"Errors ({errors})", figures.as_html(spread))


def _columns(estimator: Estimator, rows: Sample, judged: Judged) -> Iterable[Card]:
    def score(changed: Sample) -> float:
        again = judge(changed, sample.answers(estimator, changed))
        assert again is not None  # the same model on the same labels
        return again.score()

    is_classifier = isinstance(judged, classification.Judged)
    lost = "accuracy lost" if is_classifier else "root mean square error added"
    ranking = importance.by_shuffling(rows, score)
    text = "How much worse the model gets when the values of one column are shuffled."
    drawn = figures.importances(ranking, lost)
    yield Card("Importance of columns", figures.as_html(drawn), text=text)
    if isinstance(judged, classification.Judged):
        row_scores, what = (judged.truth == judged.answer).astype(float), "accuracy"
    else:
        row_scores, what = np.abs(judged.residuals), "mean error"
    sliced = importance.slices(rows, row_scores)
    if sliced:
        table = [
            [Cell(s.column, "text"), Cell(s.value), Cell(f"{s.rows:,}"), Cell(f"{s.score:.4g}")]
            for s in sliced
        ]
        columns = ["column", "value", "rows", what]
        yield Card(f"{what.capitalize()} by value", table=Table(columns, table))
