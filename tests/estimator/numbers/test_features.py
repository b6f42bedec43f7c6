"""Features of every structure reach the model function as they left the input function."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from tests.estimator.conftest import run_config, v1

EAGER = {"run_eagerly": True}
each_way = pytest.mark.parametrize("config", [{}, EAGER], ids=["traced", "eager"])

# Three rows of words, as (row, place) -> id.
WORDS = [[0, 2], [], [1, 1, 3]]
EMBEDDING = np.arange(8, dtype=np.float32).reshape(4, 2)
SUMS = np.array([[4, 6], [0, 0], [10, 13]], np.float32)


def estimator(model_dir: str, predict: Any, **config: Any) -> est.Estimator:
    """Predicts `predict(features)`, and trains a weight down by the mean of it."""

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        y = predict(features)
        if mode == est.ModeKeys.PREDICT:
            return est.EstimatorSpec(mode, predictions=y)
        assert labels is None
        weight = v1.get_variable("weight", [], initializer=v1.zeros_initializer())
        loss = tf.reduce_mean(y) * weight
        optimizer = v1.train.GradientDescentOptimizer(1.0)
        return est.EstimatorSpec(mode, loss=loss, train_op=est.minimize(optimizer, loss))

    return est.Estimator(model_fn, model_dir, run_config(**config))


def check(model: est.Estimator, dataset_fn: Any, expected: np.ndarray) -> None:
    """Prediction row by row, then a step over two batches."""
    np.testing.assert_allclose(np.array(list(model.predict(dataset_fn))), expected, atol=1e-5)
    model.train(dataset_fn)
    batches = [expected[:2], expected[2:]]
    total = sum(float(batch.mean()) for batch in batches)
    assert model.get_variable_value("weight") == pytest.approx(-total, abs=1e-5)
    assert model.evaluate(dataset_fn)["loss"] == pytest.approx(-total * total / 2, abs=1e-4)


def sparse_words() -> tf.SparseTensor:
    indices = [(r, c) for r, row in enumerate(WORDS) for c in range(len(row))]
    values = [word for row in WORDS for word in row]
    return tf.SparseTensor(indices, tf.constant(values, tf.int64), [3, 3])


@each_way
def test_sparse_features(model_dir: str, config: dict[str, Any]) -> None:
    def input_fn() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices({"words": sparse_words()}).batch(2)

    def predict(features: Any) -> tf.Tensor:
        assert isinstance(features["words"], tf.SparseTensor)
        table = v1.get_variable("table", initializer=EMBEDDING, trainable=False)
        return tf.nn.safe_embedding_lookup_sparse(table, features["words"], combiner="sum")

    check(estimator(model_dir, predict, **config), input_fn, SUMS)


@each_way
def test_ragged_features(model_dir: str, config: dict[str, Any]) -> None:
    def input_fn() -> tf.data.Dataset:
        words = tf.ragged.constant(WORDS, dtype=tf.int64)
        return tf.data.Dataset.from_tensor_slices({"words": words}).batch(2)

    def predict(features: Any) -> tf.Tensor:
        assert isinstance(features["words"], tf.RaggedTensor)
        table = v1.get_variable("table", initializer=EMBEDDING, trainable=False)
        return tf.reduce_sum(tf.ragged.map_flat_values(tf.gather, table, features["words"]), axis=1)

    check(estimator(model_dir, predict, **config), input_fn, SUMS)


@each_way
def test_nested_dicts_and_tuples(model_dir: str, config: dict[str, Any]) -> None:
    numbers = np.float32([1, 2, 3])

    def input_fn() -> tf.data.Dataset:
        nested = {"user": {"age": numbers, "pair": (numbers * 10, numbers * 100)}, "b": numbers * 0}
        return tf.data.Dataset.from_tensor_slices(nested).batch(2)

    def predict(features: Any) -> tf.Tensor:
        tens, hundreds = features["user"]["pair"]
        return features["user"]["age"] + tens + hundreds + features["b"]

    check(estimator(model_dir, predict, **config), input_fn, numbers * 111)


def test_bare_tensor_as_features_and_no_labels(model_dir: str) -> None:
    numbers = np.float32([1, 2, 3])

    def input_fn() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices(numbers).batch(2)

    check(estimator(model_dir, lambda features: features * 2), input_fn, numbers * 2)


def test_pair_with_none_as_labels(model_dir: str) -> None:
    """A v1 input function may hand over (features, None), not only a Dataset."""
    numbers = np.float32([1, 2, 3])

    def input_fn() -> Any:
        dataset = tf.data.Dataset.from_tensor_slices(numbers).batch(2)
        return v1.data.make_one_shot_iterator(dataset).get_next(), None

    check(estimator(model_dir, lambda features: features * 2), input_fn, numbers * 2)


def test_model_function_may_change_the_dict_it_is_given(model_dir: str) -> None:
    numbers = np.float32([1, 2, 3])

    def input_fn() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices({"x": numbers}).batch(2)

    def predict(features: Any) -> tf.Tensor:
        features["y"] = features.pop("x") + 1
        return features["y"]

    check(estimator(model_dir, predict), input_fn, numbers + 1)


def test_labels_of_several_heads(model_dir: str) -> None:
    x = np.float32([1, 2, 3, 4])

    def input_fn() -> tf.data.Dataset:
        labels = {"clicks": x * 2, "orders": {"count": x * 3}}
        return tf.data.Dataset.from_tensor_slices((x, labels)).repeat().batch(2)

    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        a, b = (v1.get_variable(n, [], initializer=v1.zeros_initializer()) for n in "ab")
        loss = tf.reduce_mean((features * a - labels["clicks"]) ** 2)
        loss += tf.reduce_mean((features * b - labels["orders"]["count"]) ** 2)
        optimizer = v1.train.GradientDescentOptimizer(0.04)
        return est.EstimatorSpec(mode, loss=loss, train_op=est.minimize(optimizer, loss))

    model = est.Estimator(model_fn, model_dir, run_config()).train(input_fn, steps=60)
    assert model.get_variable_value("a") == pytest.approx(2, abs=1e-3)
    assert model.get_variable_value("b") == pytest.approx(3, abs=1e-3)


def test_vocabulary_file_column(model_dir: str, tmp_path: Path) -> None:
    """The column makes its lookup table inside the model function."""
    vocabulary = tmp_path / "words.txt"
    vocabulary.write_text("red\ngreen\n")
    column = tf.feature_column.indicator_column(
        tf.feature_column.categorical_column_with_vocabulary_file(
            "word", str(vocabulary), num_oov_buckets=1
        )
    )

    def input_fn() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices({"word": ["green", "blue", "red"]}).batch(2)

    def predict(features: Any) -> tf.Tensor:
        return v1.feature_column.input_layer(features, [column])

    expected = np.float32([[0, 1, 0], [0, 0, 1], [1, 0, 0]])
    check(estimator(model_dir, predict), input_fn, expected)


def test_strings_come_back_as_bytes(model_dir: str) -> None:
    def input_fn() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices(["a", "b", "ü"]).batch(2)

    def model_fn(features: tf.Tensor, mode: str) -> est.EstimatorSpec:
        return est.EstimatorSpec(mode, predictions={"word": tf.strings.join([features, "!"])})

    rows = list(est.Estimator(model_fn, model_dir, run_config()).predict(input_fn))
    assert [row["word"] for row in rows] == [b"a!", b"b!", "ü!".encode()]
