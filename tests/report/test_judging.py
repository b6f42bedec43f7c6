"""What a report says of a model, on answers small enough to count by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.report import classification, importance, regression, sample
from estimand.report.sample import Sample
from tests import line

LABELS = np.array([0, 0, 1, 1, 1])
POSITIVE = np.array([[0.1], [0.6], [0.4], [0.8], [0.9]])


def binary() -> classification.Judged:
    judged = classification.judge(LABELS, {"logistic": POSITIVE, "class_ids": POSITIVE > 0.5})
    assert judged is not None
    return judged


def test_confusion_counts_truth_by_rows() -> None:
    assert classification.confusion(binary()).tolist() == [[1, 1], [1, 2]]
    assert binary().accuracy == pytest.approx(3 / 5)


def test_thresholds_trade_precision_for_recall() -> None:
    by_threshold = {round(t.threshold, 1): t for t in classification.thresholds(binary())}
    half, high = by_threshold[0.5], by_threshold[0.7]
    assert (half.precision, half.recall) == pytest.approx((2 / 3, 2 / 3))
    assert (high.precision, high.recall) == pytest.approx((1.0, 2 / 3))
    assert half.accepted == pytest.approx(3 / 5)


def test_area_under_roc_is_the_share_of_pairs_in_order() -> None:
    (curve,) = classification.roc_curves(binary())
    negatives, positives = [0.1, 0.6], [0.4, 0.8, 0.9]
    in_order = sum(p > n for p in positives for n in negatives) / 6
    assert curve.area == pytest.approx(in_order)


def test_words_as_classes_are_numbered_by_the_models_own_list() -> None:
    answers = {
        "probabilities": np.array([[0.2, 0.8], [0.7, 0.3]]),
        "all_classes": np.array([[b"yes", b"no"], [b"yes", b"no"]], object),
    }
    judged = classification.judge(np.array([b"no", b"no"], object), answers)
    assert judged is not None
    assert judged.names == ["yes", "no"]
    assert judged.truth.tolist() == [1, 1] and judged.answer.tolist() == [1, 0]


def test_classes_without_probabilities_have_no_curves() -> None:
    judged = classification.judge(np.array([0, 1, 2]), {"class": np.array([0, 2, 2])})
    assert judged is not None and judged.probabilities is None
    assert classification.roc_curves(judged) == [] and classification.thresholds(judged) == []
    assert classification.confusion(judged).tolist() == [[1, 0, 0], [0, 0, 1], [0, 0, 1]]


def rows_with(labels: Any) -> Any:
    count = len(next(iter(labels.values())) if isinstance(labels, dict) else labels)
    return lambda: tf.data.Dataset.from_tensors(({"x": np.zeros(count)}, labels))


def test_labels_are_one_for_each_row_or_one_hot(tmp_path: Path) -> None:
    model = est.Estimator(line.model_fn, tmp_path)
    for labels in (np.array([[2], [1]]), np.eye(3)[[2, 1]], {"only": np.array([2, 1])}):
        (taken,) = sample.take(model, rows_with(labels), 9)
        assert taken.labels.tolist() == [2, 1] and taken.title == ""


def test_each_of_several_labels_has_its_own_answers(tmp_path: Path) -> None:
    model = est.Estimator(line.model_fn, tmp_path)
    labels = {"price": np.array([[0.5], [1.5]]), "kinds": np.array([[1, 1], [0, 1]])}
    price, first, second = sample.take(model, rows_with(labels), 9)
    assert [one.title for one in (price, first, second)] == ["price", "kinds 0", "kinds 1"]
    assert price.labels.tolist() == [0.5, 1.5] and second.labels.tolist() == [1, 1]
    said = {
        ("price", "predictions"): np.array([[0.4], [1.6]]),
        ("kinds", "probabilities"): np.array([[0.9, 0.8], [0.3, 0.6]]),
    }
    assert list(price.of_answers(said)) == ["predictions"]
    judged = classification.judge(first.labels, first.of_answers(said))
    assert judged is not None and judged.accuracy == 1.0
    assert judged.probabilities is not None
    assert judged.probabilities[:, 1].tolist() == [0.9, 0.3]


def test_more_labels_than_can_be_shown_are_refused(tmp_path: Path) -> None:
    model = est.Estimator(line.model_fn, tmp_path)
    with pytest.raises(sample.NotJudgedError, match=r"labels of shape \[9\]"):
        sample.take(model, rows_with(np.ones([2, 9])), 9)


def test_many_classes_are_told_by_their_most_frequent_mistakes() -> None:
    truth = np.array([0, 0, 0, 40, 40, 7])
    judged = classification.judge(truth, {"class_ids": np.array([1, 1, 0, 39, 40, 7])[:, None]})
    assert judged is not None and classification.roc_curves(judged) == []
    first, second = classification.mistakes(judged, 20)
    assert (first.truth, first.answer, first.rows) == ("0", "1", 2)
    assert first.share == pytest.approx(2 / 3) and second.truth == "40"


def test_labels_that_look_like_numbers_are_names_where_the_model_has_them() -> None:
    answers = {
        "probabilities": np.array([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]]),
        "all_classes": np.array([[b"1", b"2", b"3"]] * 2, object),
    }
    judged = classification.judge(np.array([1, 3]), answers)
    assert judged is not None
    assert judged.truth.tolist() == [0, 2] and judged.accuracy == 1.0


def test_numbers_are_judged_by_their_distance() -> None:
    judged = regression.judge(
        np.array([1.0, 2.0, 3.0]), {"predictions": np.array([[1.0], [2.0], [6.0]])}
    )
    assert judged is not None
    assert judged.mean_absolute == pytest.approx(1.0)
    assert judged.root_mean_square == pytest.approx(np.sqrt(3.0))
    assert judged.explained == pytest.approx(1 - 9 / 2)


def test_answers_of_another_kind_are_not_judged() -> None:
    answers = {"embedding": np.zeros([3, 8])}
    assert classification.judge(np.array([0, 1, 0]), answers) is None
    assert regression.judge(np.array([0, 1, 0]), answers) is None


def test_only_the_column_that_decides_is_important() -> None:
    random = np.random.default_rng(1)
    used, unused = random.normal(size=400), random.normal(size=400)
    rows = Sample({"used": used, "unused": unused}, (used > 0).astype(int))

    def accuracy(changed: Sample) -> float:
        return float(np.mean((changed.features["used"] > 0) == changed.labels))

    first, second = importance.by_shuffling(rows, accuracy)
    assert first.column == "used" and 0.35 < first.loss < 0.65
    assert second.column == "unused" and second.loss == 0


def test_slices_are_values_or_bands() -> None:
    rows = Sample(
        {"plan": np.array([b"a", b"b", b"a", b"a"] * 10, object), "age": np.arange(40.0)},
        np.zeros(40),
    )
    scores = np.tile([1.0, 0.0, 1.0, 1.0], 10)
    sliced = importance.slices(rows, scores)
    assert {(s.value, s.rows, s.score) for s in sliced if s.column == "plan"} == {
        ("a", 30, 1.0),
        ("b", 10, 0.0),
    }
    bands = [s for s in sliced if s.column == "age"]
    assert len(bands) == 4 and sum(s.rows for s in bands) == 40


def test_missing_numbers_are_a_slice_of_their_own() -> None:
    age = np.array([1.0, np.nan, 2.0, np.nan])
    sliced = importance.slices(Sample({"age": age}, np.zeros(4)), np.array([1.0, 0.0, 1.0, 0.0]))
    assert {(s.value, s.rows, s.score) for s in sliced} == {
        ("1.0", 1, 1.0), ("2.0", 1, 1.0), ("missing", 2, 0.0)
    }  # fmt: skip


def test_of_many_words_the_most_frequent_are_slices() -> None:
    words = np.array([f"w{k}" for k in range(20)] + ["often"] * 3 + ["twice"] * 2)
    sliced = importance.slices(Sample({"word": words}, np.zeros(25)), np.ones(25))
    assert [(s.value, s.rows) for s in sliced] == [("often", 3), ("twice", 2)]
