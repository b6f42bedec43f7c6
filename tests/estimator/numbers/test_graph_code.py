"""What v1 graph code does inside a model function besides layers: control flow, tables, Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from tests.estimator.conftest import run_config, v1

NUMBERS = np.arange(6, dtype=np.float32)


def input_fn() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices({"x": NUMBERS}).repeat().batch(2)


def once() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices({"x": NUMBERS}).batch(4)


def estimator(model_dir: str, compute: Any, **config: Any) -> est.Estimator:
    """Predicts `compute(x)`; its loss is the mean of that times a weight that SGD lowers."""

    def model_fn(features: Any, mode: str) -> est.EstimatorSpec:
        y = compute(features["x"])
        if mode == est.ModeKeys.PREDICT:
            return est.EstimatorSpec(mode, predictions=y)
        weight = v1.get_variable("weight", [], initializer=v1.zeros_initializer())
        loss = tf.reduce_mean(tf.cast(y, tf.float32)) * weight
        optimizer = v1.train.GradientDescentOptimizer(1.0)
        return est.EstimatorSpec(mode, loss=loss, train_op=est.minimize(optimizer, loss))

    return est.Estimator(model_fn, model_dir, run_config(**config))


def check(model_dir: str, compute: Any, expected: np.ndarray, **config: Any) -> None:
    """Prediction over all, then three steps of two: the weight falls by each batch's mean."""
    model = estimator(model_dir, compute, **config)
    rows = np.array(list(model.predict(once)))
    assert rows.tolist() == expected.tolist()
    model.train(input_fn, steps=3)
    assert model.get_variable_value("weight") == pytest.approx(-expected.mean() * 3, abs=1e-5)


def test_cond(model_dir: str) -> None:
    def compute(x: tf.Tensor) -> tf.Tensor:
        return tf.cond(tf.reduce_max(x) > 4, lambda: x * 10, lambda: x + 1)

    model = estimator(model_dir, compute)
    rows = list(model.predict(once))  # batches of 0..3 and 4..5
    assert rows == [1, 2, 3, 4, 40, 50]
    model.train(input_fn, steps=3)  # batches of 0 and 1, 2 and 3, 4 and 5
    assert model.get_variable_value("weight") == pytest.approx(-(1.5 + 3.5 + 45))


def test_v1_cond_with_a_branch_that_assigns(model_dir: str) -> None:
    """Every second step resets a counter, as "reset every N steps" does."""

    def model_fn(features: Any, mode: str) -> est.EstimatorSpec:
        counter = v1.get_variable("counter", [], initializer=v1.zeros_initializer())
        weight = v1.get_variable("weight", [], initializer=v1.zeros_initializer())
        step = v1.train.get_global_step()
        change = v1.cond(
            tf.equal(step % 3, 2),
            lambda: v1.assign(counter, tf.zeros([])),
            lambda: v1.assign_add(counter, 1.0),
        )
        loss = tf.reduce_mean(features["x"]) * weight
        with v1.control_dependencies([change]):
            train_op = v1.train.GradientDescentOptimizer(1.0).minimize(loss, global_step=step)
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    model = est.Estimator(model_fn, model_dir, run_config())
    counts = [float(model.train(input_fn, steps=1).get_variable_value("counter")) for _ in range(4)]
    assert counts == [1, 2, 0, 1]
    model.train(input_fn, steps=1)  # step 4 adds, 5 resets, 6 adds
    model.train(input_fn, steps=2)
    assert model.get_variable_value("counter") == 1


def test_while_loop(model_dir: str) -> None:
    def compute(x: tf.Tensor) -> tf.Tensor:
        _, power = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), [0, x])
        return power

    check(model_dir, compute, NUMBERS**4)


def test_while_loop_with_a_gradient_through_it(model_dir: str) -> None:
    def model_fn(features: Any, mode: str) -> est.EstimatorSpec:
        weight = v1.get_variable("weight", [], initializer=v1.ones_initializer())
        _, power = v1.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * weight), [0, 1.0])
        step = v1.train.get_global_step()
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(power, global_step=step)
        return est.EstimatorSpec(mode, loss=power, train_op=train_op)

    model = est.Estimator(model_fn, model_dir, run_config()).train(input_fn, steps=4)
    weight = 1.0
    for _ in range(4):
        weight -= 0.1 * 3 * weight**2
    assert model.get_variable_value("weight") == pytest.approx(weight, abs=1e-6)


@pytest.mark.parametrize("function", [tf.py_function, tf.numpy_function, v1.py_func])
def test_python_function(model_dir: str, function: Any) -> None:
    def squares(x: Any) -> np.ndarray:
        return (np.asarray(x) ** 2).astype(np.float32)

    def compute(x: tf.Tensor) -> tf.Tensor:
        y = function(squares, [x], tf.float32)
        y.set_shape([None])
        return y

    check(model_dir, compute, NUMBERS**2)


def test_map_fn_and_scan(model_dir: str) -> None:
    def compute(x: tf.Tensor) -> tf.Tensor:
        doubled = tf.map_fn(lambda v: v * 2, x)
        return tf.scan(lambda total, v: total + v * 0, doubled) * 0 + doubled

    check(model_dir, compute, NUMBERS * 2)


def test_static_hash_table_made_inside(model_dir: str) -> None:
    def compute(x: tf.Tensor) -> tf.Tensor:
        keys = tf.constant(["0", "1", "2", "3"])
        values = tf.constant([7, 8, 9, 10], tf.int64)
        initializer = tf.lookup.KeyValueTensorInitializer(keys, values)
        table = tf.lookup.StaticHashTable(initializer, default_value=-1)
        return table.lookup(tf.strings.as_string(tf.cast(x, tf.int32)))

    check(model_dir, compute, np.array([7, 8, 9, 10, -1, -1]))


def test_index_table_from_file_made_inside(model_dir: str, tmp_path: Path) -> None:
    vocabulary = tmp_path / "vocabulary.txt"
    vocabulary.write_text("5\n3\n1\n")

    def compute(x: tf.Tensor) -> tf.Tensor:
        # tf.contrib.lookup.index_table_from_file of old; its v1 form lives on in tf.lookup.
        initializer = tf.lookup.TextFileInitializer(
            str(vocabulary),
            tf.string,
            tf.lookup.TextFileIndex.WHOLE_LINE,
            tf.int64,
            tf.lookup.TextFileIndex.LINE_NUMBER,
        )
        table = v1.lookup.StaticVocabularyTable(initializer, num_oov_buckets=1)
        return table.lookup(tf.strings.as_string(tf.cast(x, tf.int32)))

    check(model_dir, compute, np.array([3, 2, 3, 1, 3, 0]))


def test_table_made_outside(model_dir: str) -> None:
    initializer = tf.lookup.KeyValueTensorInitializer(
        tf.range(6, dtype=tf.int64), tf.range(6, dtype=tf.int64) * 3
    )
    table = tf.lookup.StaticHashTable(initializer, default_value=-1)
    check(model_dir, lambda x: table.lookup(tf.cast(x, tf.int64)), NUMBERS.astype(int) * 3)


def test_tf_function_called_inside(model_dir: str) -> None:
    @tf.function
    def clipped(x: tf.Tensor) -> tf.Tensor:
        if tf.reduce_max(x) > 100:  # autograph
            x = x * 0
        for _ in tf.range(3):
            x = tf.minimum(x + 1, 6.0)
        return x

    check(model_dir, clipped, np.minimum(NUMBERS + 3, 6))


def test_custom_gradient(model_dir: str) -> None:
    @tf.custom_gradient
    def reversed_gradient(x: tf.Tensor) -> Any:
        return tf.identity(x), lambda upstream: -upstream

    def model_fn(features: Any, mode: str) -> est.EstimatorSpec:
        weight = v1.get_variable("weight", [], initializer=v1.zeros_initializer())
        loss = tf.reduce_mean(features["x"]) * reversed_gradient(weight.read_value())
        optimizer = v1.train.GradientDescentOptimizer(1.0)
        return est.EstimatorSpec(mode, loss=loss, train_op=est.minimize(optimizer, loss))

    model = est.Estimator(model_fn, model_dir, run_config()).train(input_fn, steps=3)
    assert model.get_variable_value("weight") == pytest.approx(0.5 + 2.5 + 4.5)


def test_assertion_in_the_graph_names_itself(model_dir: str) -> None:
    def compute(x: tf.Tensor) -> tf.Tensor:
        check = v1.assert_less(x, 4.0, message="too large a number")
        with v1.control_dependencies([check]):
            return tf.identity(x)

    with pytest.raises(tf.errors.InvalidArgumentError, match="too large a number"):
        estimator(model_dir, compute).train(input_fn, steps=3)
