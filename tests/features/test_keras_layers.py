"""The columns as Keras 3 layers, in plain Keras models and in model functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.features import fast_path
from tests.features import column_cases as cases

fc = est.feature_column
STORED = np.load(Path(__file__).parent / "fixtures" / "columns.npz")

FEATURES = {
    "c": np.array(["x", "", "z", "x"]),
    "d": np.array(["x", "y", "q", ""]),
    "n": np.arange(4, dtype=np.float32),
}
LABELS = np.arange(4, dtype=np.float32)


def set_fixed_values(layer: Any) -> None:
    for weight in layer.weights:
        weight.assign(cases.fixed_value(weight.path, weight.shape))


@pytest.mark.parametrize("fast", [True, False], ids=["dense_ids", "plain"])
@pytest.mark.parametrize("name", ["numeric", "together", "shared", "max_norm", "embedding_file"])
def test_dense_features_give_the_numbers_of_an_input_layer(name: str, fast: bool) -> None:
    with fast_path(fast):
        layer = fc.DenseFeatures(cases.dense_input_columns(fc)[name])
        layer(cases.dense_features(1))
        set_fixed_values(layer)
        output = layer(cases.dense_features(2)).numpy()
    np.testing.assert_allclose(output, STORED[f"dense_input|{name}|output"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["weighted_mean", "embedding_list_sqrtn", "weighted_indicator"])
def test_dense_features_of_sparse_features(name: str) -> None:
    layer = fc.DenseFeatures(cases.sparse_input_columns(fc)[name])
    layer(cases.sparse_features())
    set_fixed_values(layer)
    output = layer(cases.sparse_features()).numpy()
    np.testing.assert_allclose(output, STORED[f"sparse_input|{name}|output"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["hash", "cross_columns", "bucket_vector"])
def test_linear_model_gives_the_numbers_of_v1s(name: str) -> None:
    layer = fc.LinearModel(cases.dense_linear_columns(fc)[name], units=2, name="linear_model")
    layer(cases.dense_features(1))
    set_fixed_values(layer)
    output = layer(cases.dense_features(1)).numpy()
    np.testing.assert_allclose(output, STORED[f"dense_linear|{name}|output"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["two", "numeric_pairs", "file"])
def test_sequence_features_give_the_numbers_of_keras_2(name: str) -> None:
    layer = fc.SequenceFeatures(cases.sequence_columns(fc)[name])
    layer(cases.sparse_features())
    set_fixed_values(layer)
    output, lengths = layer(cases.sparse_features())
    np.testing.assert_allclose(output, STORED[f"sequence|{name}|output"], rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(lengths, STORED[f"sequence|{name}|lengths"])


def columns() -> list[Any]:
    c = fc.categorical_column_with_vocabulary_list("c", ["x", "y"], num_oov_buckets=2)
    d = fc.categorical_column_with_vocabulary_list("d", ["x", "y"], num_oov_buckets=2)
    return [
        fc.numeric_column("n"),
        fc.indicator_column(c),
        fc.embedding_column(c, 3),
        *fc.shared_embeddings([c, d], 2),
    ]


def batches() -> tf.data.Dataset:
    return tf.data.Dataset.from_tensor_slices((FEATURES, LABELS)).repeat(40).batch(4)


def test_fit_trains_own_and_shared_tables() -> None:
    keras.utils.set_random_seed(1)
    layer = fc.DenseFeatures(columns(), name="deep")
    model = keras.Sequential([layer, keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.05), "mse")
    first = model.evaluate(batches(), verbose=0)
    assert {weight.path.split("deep/")[1] for weight in layer.trainable_weights} == {
        "c_embedding/embedding_weights",
        "c_d_shared_embedding/embedding_weights",
    }
    before = [weight.numpy().copy() for weight in layer.weights]
    model.fit(batches(), verbose=0)
    assert all(
        np.abs(weight.numpy() - old).max() > 0.01
        for weight, old in zip(layer.weights, before, strict=True)
    )
    assert model.evaluate(batches(), verbose=0) < first / 4


def test_functional_model_with_named_inputs() -> None:
    inputs = {
        "c": keras.Input((), dtype="string", name="c"),
        "d": keras.Input((1,), dtype="string", name="d"),
        "n": keras.Input((), name="n"),
    }
    deep = fc.DenseFeatures(columns())(inputs)
    wide = fc.LinearModel([fc.crossed_column(["c", "d"], 7)])(inputs)
    assert deep.shape == (None, 1 + 4 + 3 + 2 + 2)
    model = keras.Model(inputs, keras.layers.Dense(1)(deep) + wide)
    model.compile("adam", "mse")
    data = dict(FEATURES, d=FEATURES["d"][:, None])
    history = model.fit(
        tf.data.Dataset.from_tensor_slices((data, LABELS)).batch(2), epochs=3, verbose=0
    )
    assert history.history["loss"][-1] < history.history["loss"][0]


def test_frozen_layer_and_frozen_column_are_not_trained() -> None:
    c = fc.categorical_column_with_hash_bucket("c", 4)
    frozen = fc.DenseFeatures([fc.embedding_column(c, 2, trainable=False)])
    frozen(FEATURES)
    assert len(frozen.weights) == 1 and not frozen.trainable_weights
    layer = fc.DenseFeatures([fc.embedding_column(c, 2)], trainable=False)
    layer(FEATURES)
    assert len(layer.weights) == 1 and not layer.trainable_weights


def test_table_starts_from_a_checkpoint(tmp_path: Path) -> None:
    value = np.arange(8, dtype=np.float32).reshape(4, 2)
    checkpoint = tf.train.Checkpoint(table=tf.Variable(value)).write(str(tmp_path / "source"))
    c = fc.categorical_column_with_identity("i", 4)
    column = fc.embedding_column(
        c,
        2,
        ckpt_to_load_from=checkpoint,
        tensor_name_in_ckpt="table/.ATTRIBUTES/VARIABLE_VALUE",
    )
    output = fc.DenseFeatures([column])({"i": np.array([3, 1])})
    np.testing.assert_array_equal(output, value[[3, 1]])


@pytest.mark.parametrize("eagerly", [False, True], ids=["traced", "eager"])
def test_in_a_model_function_of_the_keras_style(tmp_path: Path, eagerly: bool) -> None:
    def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
        hidden = fc.DenseFeatures(columns())(features)
        output = keras.layers.Dense(1)(hidden)[:, 0]
        loss = tf.reduce_mean(tf.square(output - labels))
        train_op = None
        if mode == est.ModeKeys.TRAIN:
            train_op = est.minimize(keras.optimizers.Adam(0.05), loss)
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    config = est.RunConfig(tf_random_seed=1, run_eagerly=eagerly)
    estimator = est.Estimator(model_fn, str(tmp_path), config)
    estimator.train(batches, steps=1)
    first = estimator.evaluate(batches, steps=1)["loss"]
    estimator.train(batches, steps=39)
    assert estimator.evaluate(batches, steps=1)["loss"] < first / 2
    names = [n for n in estimator.get_variable_names() if n.startswith("dense_features/")]
    assert names == [
        "dense_features/c_d_shared_embedding/embedding_weights",
        "dense_features/c_embedding/embedding_weights",
    ]
