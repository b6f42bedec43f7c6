"""What evaluate returns, against NumPy over the whole set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from tests.estimator.conftest import (
    START,
    X,
    Y,
    eval_input_fn,
    numpy_loss,
    run_config,
    v1,
    v1_logits,
)

EVAL_BATCHES = [slice(0, 20), slice(20, 40), slice(40, 48)]
MakeMetrics = Callable[[tf.Tensor, tf.Tensor], dict[str, Any]]


def numpy_logits() -> np.ndarray:
    hidden = np.tanh(X @ START["hidden/kernel"] + START["hidden/bias"])
    return hidden @ START["logits/kernel"] + START["logits/bias"]


ACCURACY = float(np.mean(numpy_logits().argmax(axis=1) == Y))
MEAN_LOGIT = float(numpy_logits().mean())


def estimator(model_dir: str, make_metrics: MakeMetrics, **config: Any) -> est.Estimator:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        logits = v1_logits(features["x"])
        loss = v1.losses.sparse_softmax_cross_entropy(labels, logits)
        metrics = make_metrics(labels, logits)
        return est.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)

    return est.Estimator(model_fn, model_dir, run_config(**config))


def v1_metrics(labels: tf.Tensor, logits: tf.Tensor) -> dict[str, Any]:
    return {
        "accuracy": v1.metrics.accuracy(labels, tf.argmax(logits, axis=1)),
        "mean": v1.metrics.mean(logits),
    }


def keras_metrics(labels: tf.Tensor, logits: tf.Tensor) -> dict[str, Any]:
    import keras

    accuracy, mean = keras.metrics.SparseCategoricalAccuracy(), keras.metrics.Mean()
    accuracy.update_state(labels, logits)
    mean.update_state(logits)
    return {"accuracy": accuracy, "mean": mean}


@pytest.mark.parametrize("config", [{}, {"run_eagerly": True}], ids=["traced", "eager"])
@pytest.mark.parametrize("make_metrics", [v1_metrics, keras_metrics])
def test_metrics_are_over_the_whole_set_and_start_anew_at_each_call(
    model_dir: str, make_metrics: MakeMetrics, config: dict[str, Any]
) -> None:
    model = estimator(model_dir, make_metrics, **config)
    for _ in range(2):
        result = model.evaluate(eval_input_fn)
        assert result["accuracy"] == pytest.approx(ACCURACY, abs=1e-6)
        assert result["mean"] == pytest.approx(MEAN_LOGIT, abs=1e-5)


def test_keras_metric_made_outside_of_the_model_function(model_dir: str) -> None:
    import keras

    accuracy = keras.metrics.SparseCategoricalAccuracy()

    def metrics(labels: tf.Tensor, logits: tf.Tensor) -> dict[str, Any]:
        accuracy.update_state(labels, logits)
        return {"accuracy": accuracy}

    model = estimator(model_dir, metrics)
    for _ in range(2):
        assert model.evaluate(eval_input_fn)["accuracy"] == pytest.approx(ACCURACY, abs=1e-6)


@pytest.mark.parametrize("name", ["AUC", "Precision", "Recall", "BinaryAccuracy", "F1Score"])
def test_keras_metrics_equal_keras_itself_run_eagerly(model_dir: str, name: str) -> None:
    import keras

    arguments = {"threshold": 0.5} if name == "F1Score" else {}

    def updated(metric: Any, labels: Any, logits: Any) -> Any:
        positive = tf.cast(tf.equal(labels, 2), tf.float32)[:, None]
        metric.update_state(positive, tf.nn.softmax(logits)[:, 2:])
        return metric

    def metrics(labels: tf.Tensor, logits: tf.Tensor) -> dict[str, Any]:
        return {"it": updated(getattr(keras.metrics, name)(**arguments), labels, logits)}

    expected = getattr(keras.metrics, name)(**arguments)
    updated(expected, Y, numpy_logits().astype(np.float32))
    result = estimator(model_dir, metrics).evaluate(eval_input_fn)
    np.testing.assert_allclose(result["it"], expected.result().numpy(), atol=1e-6)


@pytest.mark.parametrize("config", [{}, {"run_eagerly": True}], ids=["traced", "eager"])
def test_loss_is_the_mean_over_batches_not_over_examples(
    model_dir: str, config: dict[str, Any]
) -> None:
    losses = [numpy_loss(START, X[rows], Y[rows]) for rows in EVAL_BATCHES]
    assert np.mean(losses) != pytest.approx(numpy_loss(START, X, Y), abs=1e-3)
    result = estimator(model_dir, lambda labels, logits: {}, **config).evaluate(eval_input_fn)
    assert result["loss"] == pytest.approx(np.mean(losses), abs=1e-6)
    assert (type(result["loss"]), type(result["global_step"])) == (float, int)


def test_steps_limits_the_batches(model_dir: str) -> None:
    result = estimator(model_dir, v1_metrics).evaluate(eval_input_fn, steps=2)
    assert result["mean"] == pytest.approx(float(numpy_logits()[:40].mean()), abs=1e-5)


@pytest.mark.parametrize("config", [{}, {"run_eagerly": True}], ids=["traced", "eager"])
@pytest.mark.parametrize("name", ["loss", "global_step"])
def test_metric_with_a_name_of_ours_is_refused(
    model_dir: str, name: str, config: dict[str, Any]
) -> None:
    def metrics(labels: tf.Tensor, logits: tf.Tensor) -> dict[str, Any]:
        return {name: v1.metrics.mean(logits)}

    message = f'Metric with name ["`]{name}["`] is not allowed, because Estimator already defines'
    with pytest.raises(ValueError, match=message):
        estimator(model_dir, metrics, **config).evaluate(eval_input_fn)


def test_value_of_a_metric_can_be_read_without_updating_it(model_dir: str) -> None:
    """A hook reads it twice after each batch."""
    seen: list[tuple[float, float]] = []
    pairs: list[Any] = []

    def metrics(labels: tf.Tensor, logits: tf.Tensor) -> dict[str, Any]:
        pairs.append(v1.metrics.mean(logits))
        return {"mean": pairs[0]}

    class Reads(est.SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            value, _ = pairs[0]
            seen.append((run_context.session.run(value), run_context.session.run(value)))

    model = estimator(model_dir, metrics)
    result = model.evaluate(eval_input_fn, hooks=[Reads()])
    running = [numpy_logits()[: rows.stop].mean() for rows in EVAL_BATCHES]
    np.testing.assert_allclose(seen, np.stack([running, running], axis=1), atol=1e-5)
    assert result["mean"] == pytest.approx(MEAN_LOGIT, abs=1e-5)
    assert result["loss"] == pytest.approx(
        np.mean([numpy_loss(START, X[rows], Y[rows]) for rows in EVAL_BATCHES]), abs=1e-5
    )  # reading took no batch away


def test_metric_of_several_values(model_dir: str) -> None:
    def metrics(labels: tf.Tensor, logits: tf.Tensor) -> dict[str, Any]:
        return {"per_class": v1.metrics.mean_tensor(tf.reduce_mean(logits, axis=0))}

    result = estimator(model_dir, metrics).evaluate(eval_input_fn)
    expected = np.mean([numpy_logits()[rows].mean(axis=0) for rows in EVAL_BATCHES], axis=0)
    np.testing.assert_allclose(result["per_class"], expected, atol=1e-5)


def test_v1_precision_and_recall(model_dir: str) -> None:
    def metrics(labels: tf.Tensor, logits: tf.Tensor) -> dict[str, Any]:
        positive = tf.equal(labels, 2)
        predicted = tf.equal(tf.argmax(logits, axis=1), 2)
        return {
            "precision": v1.metrics.precision(positive, predicted),
            "recall": v1.metrics.recall(positive, predicted),
        }

    positive, predicted = Y == 2, numpy_logits().argmax(axis=1) == 2
    result = estimator(model_dir, metrics).evaluate(eval_input_fn)
    both = (positive & predicted).sum()
    assert result["precision"] == pytest.approx(both / predicted.sum(), abs=1e-6)
    assert result["recall"] == pytest.approx(both / positive.sum(), abs=1e-6)
