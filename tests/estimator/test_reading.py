"""What evaluations and predictions write to variables, they write for themselves."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import estimand as est

v1 = tf.compat.v1
CALLS: collections.Counter[str] = collections.Counter()


def batches() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices({"x": np.arange(8, dtype=np.float32)}).batch(2)


def counting(features: Any, mode: str, params: dict[str, bool]) -> est.EstimatorSpec:
    """Counts its batches in a variable, in every mode or in training only."""
    CALLS[mode] += 1
    weight = v1.get_variable("weight", [], initializer=v1.zeros_initializer())
    count = v1.get_variable("count", [], initializer=v1.zeros_initializer(), trainable=False)
    counts = params["always"] or mode == est.ModeKeys.TRAIN
    with tf.control_dependencies([v1.assign_add(count, 1.0)] if counts else []):
        outputs, seen = features["x"] * weight, count.read_value()
    loss = tf.reduce_mean(tf.square(outputs - 1.0))
    optimizer = v1.train.GradientDescentOptimizer(0.01)
    return est.EstimatorSpec(
        mode,
        predictions={"seen": tf.fill(tf.shape(outputs), 0.0) + seen},
        loss=loss,
        train_op=optimizer.minimize(loss, v1.train.get_global_step()),  # built in every mode
        eval_metric_ops={"count": (count.read_value(), seen)},
    )


def normalizing(features: Any, mode: str, params: Any) -> est.EstimatorSpec:
    """Keras' averages move in every mode: its author has forgotten to say which it is."""
    normalized = keras.layers.BatchNormalization()(features["x"][:, None], training=True)
    loss = tf.reduce_mean(tf.square(keras.layers.Dense(1)(normalized) - 1.0))
    train_op = None
    if mode == est.ModeKeys.TRAIN:
        train_op = est.minimize(keras.optimizers.SGD(0.01), loss)
    metric = keras.metrics.Mean()
    metric.update_state(tf.reduce_mean(normalized))
    return est.EstimatorSpec(mode, {"y": normalized}, loss, train_op, {"mean": metric})


def estimator(model_fn: Any, tmp_path: Path, *, eagerly: bool = False, **params: Any) -> Any:
    config = est.RunConfig(tf_random_seed=1, save_checkpoints_steps=2, run_eagerly=eagerly)
    return est.Estimator(model_fn, str(tmp_path), config, params=params)


@pytest.mark.parametrize("eagerly", [False, True])
def test_a_count_is_that_of_training(tmp_path: Path, eagerly: bool) -> None:
    made = estimator(counting, tmp_path, eagerly=eagerly, always=True)
    made.train(batches)
    made.evaluate(batches)
    assert len(list(made.predict(batches))) == 8
    made.train(batches)
    assert made.get_variable_value("count") == 8


@pytest.mark.parametrize("in_both", [True, False])
def test_an_evaluation_with_a_strategy_counts_for_itself(tmp_path: Path, in_both: bool) -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    config = est.RunConfig(eval_distribute=strategy, train_distribute=strategy if in_both else None)
    made = est.Estimator(counting, str(tmp_path), config, params={"always": True})
    made.train(batches)
    counts = [made.evaluate(batches)["count"] for _ in range(2)]
    made.train(batches)
    assert counts == [8, 8]
    assert made.get_variable_value("count") == 8


def test_it_goes_on_counting_within_a_prediction(tmp_path: Path) -> None:
    made = estimator(counting, tmp_path, always=True)
    made.train(batches)
    for _ in range(2):
        assert [row["seen"] for row in made.predict(batches)] == [5, 5, 6, 6, 7, 7, 8, 8]


def test_training_between_two_rows_of_a_prediction_knows_nothing_of_it(tmp_path: Path) -> None:
    made = estimator(counting, tmp_path, always=True)
    made.train(batches)
    rows = made.predict(batches)
    next(rows)
    made.train(batches)
    assert len(list(rows)) == 7
    assert made.get_variable_value("count") == 8


@pytest.mark.parametrize("model_fn", [counting, normalizing])
def test_evaluating_between_steps_changes_no_bit(tmp_path: Path, model_fn: Any) -> None:
    alone = estimator(model_fn, tmp_path / "alone", always=True)
    alone.train(lambda: batches().repeat(), max_steps=8)
    evaluated = estimator(model_fn, tmp_path / "evaluated", always=True)
    est.train_and_evaluate(
        evaluated,
        est.TrainSpec(lambda: batches().repeat(), max_steps=8),
        est.EvalSpec(batches, throttle_secs=0),
    )
    for name in alone.get_variable_names():
        values = [e.get_variable_value(name).tobytes() for e in (alone, evaluated)]
        assert values[0] == values[1], name


def test_a_model_that_only_reads_is_built_once(tmp_path: Path) -> None:
    made = estimator(counting, tmp_path, always=False)
    made.train(batches)
    CALLS.clear()
    for _ in range(2):
        made.evaluate(batches)
        list(made.predict(batches))
    assert CALLS == {"eval": 1, "infer": 1}
