"""How well a classifier does: which classes it confuses, and what its probabilities are worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

_PROBABILITIES = ("probabilities", "probs", "scores")
_POSITIVE = ("logistic", "probability")
_CLASSES = ("class_ids", "classes", "class", "label", "labels")
_BINS = 10
MOST_DRAWN = 30  # classes of which a picture can still be read


@dataclass(frozen=True)
class Judged:
    """The answers of a classifier beside the truth; class numbers count `names`."""

    names: list[str]
    truth: np.ndarray  # class numbers
    answer: np.ndarray  # class numbers
    probabilities: np.ndarray | None  # [rows, classes]

    @property
    def accuracy(self) -> float:
        return float(np.mean(self.truth == self.answer))

    @property
    def is_binary(self) -> bool:
        return len(self.names) == 2

    @property
    def is_finite(self) -> np.ndarray:
        """Of each row, whether there is an answer: a model that diverged gives NaN."""
        if self.probabilities is None:
            return np.ones(len(self.truth), bool)
        return np.isfinite(self.probabilities).all(axis=1)

    def score(self) -> float:
        """A number to compare models by: the larger, the better."""
        return self.accuracy


@dataclass(frozen=True)
class Points:
    """A line of a picture: one class against the others."""

    name: str
    x: np.ndarray
    y: np.ndarray
    area: float | None = None


def judge(labels: np.ndarray, answers: Mapping[str, np.ndarray]) -> Judged | None:
    """The answers as those of a classifier; None if they are not."""
    probabilities = _probabilities(answers)
    classes = next((answers[key] for key in _CLASSES if key in answers), None)
    if probabilities is None and classes is None:
        return None
    names = _names(labels, answers, probabilities, classes)
    truth = _numbers(labels, names)
    if probabilities is not None:
        answer = probabilities.argmax(axis=1)
    else:
        assert classes is not None
        answer = _numbers(classes.reshape(len(classes), -1)[:, 0], names)
    return Judged(names, truth, answer, probabilities)


def confusion(judged: Judged) -> np.ndarray:
    """How often which class (row) was taken for which (column)."""
    from sklearn import metrics

    return metrics.confusion_matrix(
        judged.truth, judged.answer, labels=list(range(len(judged.names)))
    )


@dataclass(frozen=True)
class Mistake:
    """How many rows of one class were taken for another."""

    truth: str
    answer: str
    rows: int
    share: float  # of the rows of the class


def mistakes(judged: Judged, most: int) -> list[Mistake]:
    """The most frequent ones, for where there are too many classes for a picture."""
    matrix = confusion(judged)
    of_class = np.maximum(1, matrix.sum(axis=1))
    wrong = matrix - np.diag(np.diag(matrix))
    order = np.argsort(-wrong, axis=None, kind="stable")[:most]
    pairs = [np.unravel_index(k, wrong.shape) for k in order if wrong.flat[k]]
    return [
        Mistake(
            judged.names[t], judged.names[a], int(wrong[t, a]), float(wrong[t, a] / of_class[t])
        )
        for t, a in pairs
    ]


def roc_curves(judged: Judged) -> list[Points]:
    from sklearn import metrics

    curves = []
    for name, is_it, probability in against_the_rest(judged):
        false_rate, true_rate, _ = metrics.roc_curve(is_it, probability)
        curves.append(Points(name, false_rate, true_rate, metrics.auc(false_rate, true_rate)))
    return curves


def precision_recall_curves(judged: Judged) -> list[Points]:
    from sklearn import metrics

    curves = []
    for name, is_it, probability in against_the_rest(judged):
        precision, recall, _ = metrics.precision_recall_curve(is_it, probability)
        area = metrics.average_precision_score(is_it, probability)
        curves.append(Points(name, recall, precision, float(area)))
    return curves


def calibration(judged: Judged) -> list[Points]:
    """What share of the rows with a probability are of the class; a straight line is ideal."""
    from sklearn.calibration import calibration_curve

    curves = []
    for name, is_it, probability in against_the_rest(judged):
        share, mean = calibration_curve(is_it, np.clip(probability, 0, 1), n_bins=_BINS)
        curves.append(Points(name, mean, share))
    return curves


@dataclass(frozen=True)
class Threshold:
    """What comes of saying yes from a probability on."""

    threshold: float
    accepted: float  # the share of all rows
    precision: float | None
    recall: float
    f1: float | None


def thresholds(judged: Judged) -> list[Threshold]:
    """For two classes: from which probability on to say yes."""
    if not judged.is_binary or judged.probabilities is None:
        return []
    positive, probability = judged.truth == 1, judged.probabilities[:, 1]
    rows = []
    for threshold in np.linspace(0.1, 0.9, 9):
        accepted = probability >= threshold
        hits = int(np.sum(accepted & positive))
        precision = hits / int(accepted.sum()) if accepted.any() else None
        recall = hits / max(1, int(positive.sum()))
        both = (precision or 0) + recall
        f1 = 2 * precision * recall / both if precision is not None and both else None
        rows.append(Threshold(float(threshold), float(accepted.mean()), precision, recall, f1))
    return rows


def against_the_rest(judged: Judged) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Of each class that has rows and is not all of them: name, which rows, probabilities."""
    if judged.probabilities is None or len(judged.names) > MOST_DRAWN:
        return []
    numbers = [1] if judged.is_binary else range(len(judged.names))
    each = [
        (judged.names[k], (judged.truth == k).astype(int), judged.probabilities[:, k])
        for k in numbers
    ]
    return [(name, is_it, p) for name, is_it, p in each if 0 < is_it.sum() < len(is_it)]


def _probabilities(answers: Mapping[str, np.ndarray]) -> np.ndarray | None:
    for key in _PROBABILITIES:
        if key in answers and answers[key].ndim == 2 and answers[key].shape[1] > 1:
            return answers[key]
    for key in _POSITIVE:
        if key in answers:
            positive = answers[key].reshape(-1)
            return np.stack([1 - positive, positive], axis=1)
    return None


def _names(
    labels: np.ndarray,
    answers: Mapping[str, np.ndarray],
    probabilities: np.ndarray | None,
    classes: np.ndarray | None,
) -> list[str]:
    if "all_classes" in answers:
        return [_text(name) for name in answers["all_classes"][0]]
    if probabilities is not None:
        count = probabilities.shape[1]
    elif labels.dtype.kind in "iub" and classes is not None and classes.dtype.kind in "iub":
        count = int(max(labels.max(), classes.max())) + 1
    else:
        assert classes is not None
        return sorted({_text(v) for v in [*labels.tolist(), *classes.reshape(-1).tolist()]})
    return [str(k) for k in range(count)]


def _numbers(values: np.ndarray, names: list[str]) -> np.ndarray:
    by_name = {name: k for k, name in enumerate(names)}
    numbers = np.array([by_name.get(_text(v), -1) for v in values.tolist()], np.int64)
    # Names may look like numbers: only what is none of them counts the classes.
    is_count = values.dtype.kind in "iubf" and (numbers < 0).any()
    return values.astype(np.int64) if is_count else numbers


def _text(value: object) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)
