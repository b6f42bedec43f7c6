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


def sections(estimator: Estimator, input_fn: Callable[..., Any], rows: int) -> list[Section]:
    """Ask the newest checkpoint for some rows, and judge what it says."""
    rows_taken = sample.take(estimator, input_fn, rows)
    answers = sample.answers(estimator, rows_taken)
    judged = _judge(rows_taken, answers)
    if judged is None:
        keys = ", ".join(sorted(answers))
        text = (
            f"The model's answers have the keys {keys}. To be judged here, a classifier gives "
            "'probabilities' or 'class_ids', a regression 'predictions'."
        )
        return [Section("answers", "Answers", [Card("Not judged", text=text)])]
    cards = _classifier(judged) if isinstance(judged, classification.Judged) else _numbers(judged)
    told = f"{len(rows_taken):,} rows of the evaluation input, answered by the newest checkpoint."
    return [
        Section("answers", "What it gets right and wrong", list(cards), told),
        Section("columns", "What it relies on", list(_columns(estimator, rows_taken, judged))),
    ]


def _judge(rows: Sample, answers: dict[str, np.ndarray]) -> Judged | None:
    return classification.judge(rows.labels, answers) or regression.judge(rows.labels, answers)


def _classifier(judged: classification.Judged) -> Iterable[Card]:
    matrix = classification.confusion(judged)
    title = f"Confusion ({judged.accuracy:.1%} right)"
    yield Card(title, figures.as_html(figures.confusion(matrix, judged.names)))
    if judged.probabilities is None:
        return
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
    yield Card("How sure it is", figures.as_html(figures.probabilities(judged)))
    rows = [
        [
            Cell(f"{row.threshold:.1f}"),
            Cell(f"{row.accepted:.1%}"),
            Cell("" if row.precision is None else f"{row.precision:.1%}"),
            Cell(f"{row.recall:.1%}"),
            Cell("" if row.f1 is None else f"{row.f1:.3f}"),
        ]
        for row in classification.thresholds(judged)
    ]
    if rows:
        columns = ["threshold", "accepted", "precision", "recall", "F1"]
        yield Card(f"From which probability of {judged.names[1]} on", table=Table(columns, rows))


def _numbers(judged: regression.Judged) -> Iterable[Card]:
    against, spread = figures.residuals(judged)
    explained = "" if judged.explained is None else f", R² {judged.explained:.3f}"
    yield Card(f"Predicted and true{explained}", figures.as_html(against))
    errors = f"root mean square {judged.root_mean_square:.4g}, mean {judged.mean_absolute:.4g}"
    yield Card(f"Errors ({errors})", figures.as_html(spread))


def _columns(estimator: Estimator, rows: Sample, judged: Judged) -> Iterable[Card]:
    def score(changed: Sample) -> float:
        again = _judge(changed, sample.answers(estimator, changed))
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
