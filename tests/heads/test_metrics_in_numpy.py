"""The metric objects against NumPy and scikit-learn, over several weighted batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from sklearn.metrics import average_precision_score, roc_auc_score

import estimand as est
from estimand.heads.metrics import AUC, Mean

RANDOM = np.random.RandomState(3)
LOGITS = RANDOM.randn(300, 1).astype("float32")
LABELS = (RANDOM.rand(300, 1) < 1 / (1 + np.exp(-2 * LOGITS))).astype("int64")
WEIGHTS = RANDOM.choice([0.0, 0.5, 2.0], size=[300, 1]).astype("float32")


def evaluated(head: Any, logits: Any = LOGITS, labels: Any = LABELS, **features: Any) -> Any:
    metrics = head.metrics()
    for start in range(0, len(logits), 64):
        part = slice(start, start + 64)
        head.update_metrics(
            metrics, {k: v[part] for k, v in features.items()}, logits[part], labels[part]
        )
    return {key: float(metric.result()) for key, metric in metrics.items()}


@pytest.mark.parametrize("weighted", [False, True])
def test_binary_metrics(weighted: bool) -> None:
    head = est.BinaryClassHead(weight_column="w" if weighted else None, thresholds=[0.3])
    w = WEIGHTS if weighted else np.ones_like(WEIGHTS)
    scores = 1 / (1 + np.exp(-LOGITS.astype("float64")))
    chosen, over = LOGITS > 0, scores > 0.3
    losses = -np.where(LABELS == 1, np.log(scores), np.log(1 - scores))

    def mean(values: Any) -> Any:
        return (values * w).sum() / w.sum()

    expected = {
        "average_loss": mean(losses),
        "accuracy": mean(chosen == LABELS),
        "precision": (w * chosen * LABELS).sum() / (w * chosen).sum(),
        "recall": (w * chosen * LABELS).sum() / (w * LABELS).sum(),
        "label/mean": mean(LABELS),
        "accuracy_baseline": max(mean(LABELS), 1 - mean(LABELS)),
        "prediction/mean": mean(scores),
        "accuracy/positive_threshold_0.3": mean(over == LABELS),
        "precision/positive_threshold_0.3": (w * over * LABELS).sum() / (w * over).sum(),
        "recall/positive_threshold_0.3": (w * over * LABELS).sum() / (w * LABELS).sum(),
    }
    found = evaluated(head, w=WEIGHTS)
    # 200 thresholds tell apart nearly as many scores as there are
    exact = roc_auc_score(LABELS.ravel(), scores.ravel(), sample_weight=w.ravel())
    assert found.pop("auc") == pytest.approx(exact, abs=5e-3)
    exact = average_precision_score(LABELS.ravel(), scores.ravel(), sample_weight=w.ravel())
    assert found.pop("auc_precision_recall") == pytest.approx(exact, abs=2e-2)
    assert found == pytest.approx(expected, rel=1e-5)


def test_multi_class_metrics() -> None:
    logits = RANDOM.randn(90, 4).astype("float32")
    labels = RANDOM.randint(0, 4, [90, 1])
    weights = WEIGHTS[:90]
    found = evaluated(est.MultiClassHead(4, weight_column="w"), logits, labels, w=weights)
    hits = logits.argmax(-1)[:, None] == labels
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    losses = -np.take_along_axis(logs, labels, -1)
    expected = {
        "accuracy": (hits * weights).sum() / weights.sum(),
        "average_loss": (losses * weights).sum() / weights.sum(),
    }
    assert found == pytest.approx(expected, rel=1e-5)


def test_regression_metrics() -> None:
    logits, labels = RANDOM.randn(90, 2), RANDOM.randn(90, 2)
    weights = WEIGHTS[:90]
    head = est.RegressionHead(2, weight_column="w", inverse_link_fn=tf.exp, name="h")
    found = evaluated(head, logits, labels, w=weights)

    def mean(values: Any) -> Any:
        return (values * weights).sum() / (2 * weights.sum())

    expected = {
        "average_loss/h": mean((logits - labels) ** 2),
        "label/mean/h": mean(labels),
        "prediction/mean/h": mean(np.exp(logits)),
    }
    assert found == pytest.approx(expected, rel=1e-5)


def test_multi_label_metrics_of_single_classes_have_their_names() -> None:
    head = est.MultiLabelHead(
        2, label_vocabulary=["red", "dark blue"], classes_for_class_based_metrics=["dark blue"]
    )
    logits = np.array([[1.0, -2.0], [0.0, 3.0]], "float32")
    labels = tf.SparseTensor([[0, 0], [1, 0]], ["red", "dark blue"], [2, 1])
    metrics = head.update_metrics(head.metrics(), {}, logits, labels)
    share = float(metrics["probability_mean/dark blue"].result())
    assert share == pytest.approx((1 / (1 + np.exp(2)) + 1 / (1 + np.exp(-3))) / 2)
    assert float(metrics["auc/dark blue"].result()) == pytest.approx(1.0)


def test_hinge_metrics_have_no_probabilities() -> None:
    found = evaluated(est.HingeHead())
    assert set(found) == {
        "accuracy",
        "accuracy_baseline",
        "auc",
        "auc_precision_recall",
        "average_loss",
        "label/mean",
        "precision",
        "recall",
    }
    assert found["accuracy"] == pytest.approx(((LOGITS > 0) == LABELS).mean())


def test_a_logit_of_zero_is_class_zero_as_in_the_predictions() -> None:
    head = est.BinaryClassHead()
    assert head.predictions([[0.0]])["class_ids"].numpy().tolist() == [[0]]
    assert evaluated(head, np.zeros([1, 1], "float32"), np.zeros([1, 1]))["accuracy"] == 1.0


def test_metrics_before_any_batch_are_zero() -> None:
    values = {k: float(m.result()) for k, m in est.BinaryClassHead().metrics().items()}
    assert set(values.values()) == {0.0}


def test_reset_state_starts_anew() -> None:
    metric = Mean("m")
    metric.update_state([5.0])
    metric.reset_state()
    metric.update_state([1.0, 2.0])
    assert float(metric.result()) == 1.5


def test_auc_of_scores_that_are_no_numbers_is_none_either() -> None:
    for curve in ("ROC", "PR"):
        metric = AUC("auc", curve)
        metric.update_state([0, 1, 1], [0.1, 0.9, np.nan])
        assert np.isnan(float(metric.result()))


def test_predictions_can_be_limited_to_some_keys() -> None:
    assert list(est.BinaryClassHead().predictions([[0.0]], keys=["logistic"])) == ["logistic"]
    with pytest.raises(ValueError, match="Prediction key must be in PredictionKeys, given: what"):
        est.MultiClassHead(3).predictions([[0.0, 1.0, 2.0]], keys=["what"])
