"""Averages of weights, in an Estimator as object detection has them: saved by a swapping Saver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

import estimand as est
from estimand.compat.v1 import contrib

v1 = tf.compat.v1
DECAY = 0.5


def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    weight = v1.get_variable("weight", initializer=8.0)
    loss = weight * tf.reduce_mean(features)
    if mode != est.ModeKeys.TRAIN:
        return est.EstimatorSpec(mode, loss=loss, predictions={"weight": features * weight})
    optimizer = contrib.opt.MovingAverageOptimizer(
        v1.train.GradientDescentOptimizer(1.0), average_decay=DECAY
    )
    train_op = optimizer.minimize(loss, global_step=v1.train.get_global_step())
    scaffold = v1.train.Scaffold(saver=optimizer.swapping_saver())
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op, scaffold=scaffold)


def input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensors((tf.ones([1]), tf.zeros([1]))).repeat()


def by_hand(steps: int) -> tuple[float, float]:
    """The weight, from which each step takes one, and its average."""
    weight = average = 8.0
    for _ in range(steps):
        weight -= 1
        average = DECAY * average + (1 - DECAY) * weight
    return weight, average


def test_checkpoints_have_averages_for_weights_and_training_goes_on(tmp_path: Path) -> None:
    for steps in (2, 4):  # by another Estimator each: the second goes on from the files
        estimator = est.Estimator(model_fn, str(tmp_path))
        estimator.train(input_fn, steps=2)
        weight, average = by_hand(steps)
        assert estimator.get_variable_value("weight") == pytest.approx(average)
        swapped = estimator.get_variable_value("weight/ExponentialMovingAverage")
        assert swapped == pytest.approx(weight)
    assert est.Estimator(model_fn, str(tmp_path)).evaluate(input_fn, steps=1)[
        "loss"
    ] == pytest.approx(average)


def test_a_saver_before_there_are_averages_is_refused() -> None:
    optimizer = contrib.opt.MovingAverageOptimizer(v1.train.GradientDescentOptimizer(1.0))
    with pytest.raises(RuntimeError, match="comes after minimize"):
        optimizer.swapping_saver()
