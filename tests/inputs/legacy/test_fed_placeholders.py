"""Placeholders that an input function returns, and a hook feeds at every step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est

v1 = tf.compat.v1


def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    weight = v1.get_variable("weight", [], initializer=v1.zeros_initializer())
    predictions = weight * features["x"]
    if mode == est.ModeKeys.PREDICT:
        return est.EstimatorSpec(mode, predictions=predictions)
    loss = tf.reduce_mean((predictions - labels) ** 2)
    step = v1.train.get_global_step()
    train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
    mean = v1.metrics.mean(labels)
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops={"mean": mean})


class Feeder(est.SessionRunHook):
    """Feeds batches by name, looks at what the input function made of them."""

    def __init__(self, *batches: list[float]) -> None:
        self._batches = iter(batches)
        self.seen: list[Any] = []

    def input_fn(self) -> Any:
        rows = v1.placeholder(tf.float32, [None], name="rows")
        doubled = tf.multiply(rows, 2.0, name="doubled")
        return {"x": rows}, doubled

    def before_run(self, run_context: Any) -> Any:
        return est.SessionRunArgs("doubled:0", feed_dict={"rows:0": next(self._batches)})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.seen.append(run_values.results.tolist())


def test_each_step_has_the_batch_that_was_fed(tmp_path: Path) -> None:
    estimator = est.Estimator(model_fn, str(tmp_path))
    hook = Feeder([1.0], [2.0, 0.0], [3.0])
    estimator.train(hook.input_fn, steps=3, hooks=[hook])
    assert hook.seen == [[2.0], [4.0, 0.0], [6.0]]
    weight = 0.0
    for batch in ([1.0], [2.0, 0.0], [3.0]):
        x = np.array(batch)
        weight -= 0.1 * np.mean(2 * (weight * x - 2 * x) * x)
    assert estimator.get_variable_value("weight") == pytest.approx(weight)

    hook = Feeder([1.0], [2.0, 6.0])
    assert estimator.evaluate(hook.input_fn, steps=2, hooks=[hook])["mean"] == pytest.approx(6.0)

    hook = Feeder([1.0], [5.0])
    predicted = estimator.predict(hook.input_fn, hooks=[hook])
    assert [next(predicted), next(predicted)] == pytest.approx([weight, 5 * weight])
    predicted.close()


def test_nobody_feeds_them(tmp_path: Path) -> None:
    estimator = est.Estimator(model_fn, str(tmp_path))
    with pytest.raises(tf.errors.InvalidArgumentError, match="rows"):
        estimator.train(Feeder().input_fn, steps=1)
