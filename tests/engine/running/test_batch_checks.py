"""Checks of the batch in compiled steps: the same error, after the same steps, as elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.engine.running import program

v1 = tf.compat.v1
ROWS, BATCH, BAD_ROW = 40, 4, 26  # in the seventh batch


def input_fn(bad: bool = True) -> tf.data.Dataset:
    x = np.linspace(-1, 1, ROWS, dtype=np.float32)[:, None]
    labels = (x[:, 0] > 0).astype(np.int64)
    if bad:
        labels[BAD_ROW] = 2
    return tf.data.Dataset.from_tensor_slices(({"x": x}, labels)).repeat().batch(BATCH)


def with_assertion(kind: str) -> Any:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        if kind == "chained":
            with tf.control_dependencies([tf.debugging.assert_non_negative(labels)]):
                labels = tf.identity(labels)
        if kind in ("guarded", "chained"):
            checks = [tf.debugging.assert_less(labels, tf.constant(2, tf.int64), "too large")]
        else:
            fits = tf.reduce_all(labels < 2)
            checks = [tf.raw_ops.Assert(condition=fits, data=["too large", labels])]
        with tf.control_dependencies(checks):
            targets = tf.cast(tf.identity(labels), tf.float32)[:, None]
        w = v1.get_variable("w", [1, 1], initializer=v1.ones_initializer())
        loss = tf.reduce_mean(tf.square(features["x"] @ w - targets))
        step = v1.train.get_global_step()
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


def keras_model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
    logits = keras.layers.Dense(2)(features["x"])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)(labels, logits)
    train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def estimator(kind: str, model_dir: Path, mode: str) -> est.Estimator:
    config = est.RunConfig(tf_random_seed=1, block_mode=mode, save_summary_steps=None)
    if kind == "canned":
        columns = [est.feature_column.numeric_column("x")]
        return est.DNNClassifier([3], columns, str(model_dir), config=config)
    model_fn = keras_model_fn if kind == "keras" else with_assertion(kind)
    return est.Estimator(model_fn, str(model_dir), config)


@pytest.fixture
def compiled(monkeypatch: Any) -> list[Any]:
    """The checks of what XLA compiled."""
    made: list[Any] = []
    build = program.BatchChecks.of

    def of(*args: Any) -> Any:
        made.append(build(*args))
        return made[-1]

    monkeypatch.setattr(program.BatchChecks, "of", of)
    return made


@pytest.mark.parametrize("kind", ["plain", "guarded", "chained", "canned", "keras"])
def test_a_batch_that_fails_a_check_is_told_after_the_steps_before_it(
    tmp_path: Path, compiled: list[Any], caplog: Any, kind: str
) -> None:
    told, weights = [], []
    for mode in ("single_thread", "xla"):
        model = estimator(kind, tmp_path / mode, mode)
        with pytest.raises(tf.errors.InvalidArgumentError) as error:
            model.train(input_fn, steps=20)
        told.append(str(error.value))
        # What is in memory is what the steps before it left.
        store = model._workspace.live.store  # type: ignore[attr-defined]
        weights.append({v.name: v.numpy() for v in store.variables()})
    assert any(compiled) and "cannot be compiled" not in caplog.text
    assert told[0] == told[1]
    assert weights[0].keys() == weights[1].keys()
    for name, value in weights[0].items():
        np.testing.assert_allclose(value, weights[1][name], rtol=1e-5, err_msg=name)
    assert BAD_ROW // BATCH in [v for v in weights[1].values() if v.shape == ()]


def test_compiled_steps_of_a_canned_model_are_those_of_other_ways(
    tmp_path: Path, compiled: list[Any]
) -> None:
    good = {}
    for mode in ("single_thread", "xla"):
        model = estimator("canned", tmp_path / mode, mode)
        model.train(lambda: input_fn(bad=False), steps=30)
        good[mode] = {n: model.get_variable_value(n) for n in model.get_variable_names()}
    assert compiled
    for name, value in good["xla"].items():
        np.testing.assert_allclose(value, good["single_thread"][name], rtol=1e-4, err_msg=name)


@pytest.mark.parametrize(
    ("types", "classes", "compiles"),
    [
        ([tf.float32, tf.int64], 3000, True),
        ([tf.float16, tf.int64], 2048, True),
        ([tf.float16, tf.int64], 3000, False),  # 2049 becomes 2048
        ([tf.bfloat16, tf.int32], 257, False),
        ([tf.int32], 3, False),  # 2**32 becomes 0
        ([tf.float32, tf.int64, tf.int32], 3, False),
        ([tf.float32, tf.int8, tf.int32], 3, False),
    ],
)
def test_labels_that_come_by_casts_are_known_before_the_step_where_casts_keep_them(
    tmp_path: Path, caplog: Any, types: list[tf.DType], classes: int, compiles: bool
) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        for dtype in types:
            labels = tf.cast(labels, dtype)
        w = v1.get_variable("w", [1, classes])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, features["x"] @ w)
        loss, step = tf.reduce_mean(losses), v1.train.get_global_step()
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, step)
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    config = est.RunConfig(block_mode="xla", save_summary_steps=None)
    est.Estimator(model_fn, str(tmp_path), config).train(lambda: input_fn(bad=False), steps=3)
    assert ("cannot be compiled" not in caplog.text) is compiles
