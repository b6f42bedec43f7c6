"""The feature columns of 2016 in a model of today."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.compat.v1 import contrib

v1 = tf.compat.v1
layers = contrib.layers


def wide_and_deep() -> tuple[list[Any], list[Any]]:
    """As the tutorial had them."""
    gender = layers.sparse_column_with_keys(column_name="gender", keys=["female", "male"])
    job = layers.sparse_column_with_hash_bucket("job", hash_bucket_size=100)
    age = layers.real_valued_column("age")
    decade = layers.sparse_column_with_integerized_feature("decade", 3)
    buckets = layers.bucketized_column(age, boundaries=[18, 40, 65])
    crossed = layers.crossed_column([job, gender], hash_bucket_size=50)
    twice = layers.crossed_column([buckets, job], hash_bucket_size=50)
    wide = [gender, job, buckets, crossed, twice, decade]
    deep = [
        layers.embedding_column(job, dimension=8),
        layers.one_hot_column(gender),
        layers.real_valued_column("age", normalizer=lambda years: years / 100),
    ]
    return wide, deep


FEATURES: dict[str, Any] = {
    "gender": np.array([["male"], ["female"], ["female"], ["male"]]),
    "job": np.array([["a"], ["b"], ["a"], ["c"]]),
    "age": np.array([[20.0], [50.0], [70.0], [10.0]], np.float32),
    "decade": np.array([[0], [1], [2], [0]]),
}


def test_a_wide_and_deep_model_learns(tmp_path: Path) -> None:
    wide, deep = wide_and_deep()
    model = est.DNNLinearCombinedClassifier(
        linear_feature_columns=wide,
        dnn_feature_columns=deep,
        dnn_hidden_units=[8],
        config=est.RunConfig(str(tmp_path), progress=False, tf_random_seed=1),
    )
    labels = np.array([0, 1, 1, 0])
    data = tf.data.Dataset.from_tensor_slices((FEATURES, labels)).batch(4)
    model.train(lambda: data.repeat(), steps=100)
    assert model.evaluate(lambda: data)["accuracy"] == 1.0


def test_columns_side_by_side() -> None:
    gender = layers.sparse_column_with_keys("gender", ["female", "male"])
    with tf.Graph().as_default(), v1.Session() as session:
        features = {name: tf.constant(value) for name, value in FEATURES.items()}
        made = layers.input_from_feature_columns(
            features, [layers.one_hot_column(gender), layers.real_valued_column("age")]
        )
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        # In the order of their names.
        expected = [[20, 0, 1], [50, 1, 0], [70, 1, 0], [10, 0, 1]]
        np.testing.assert_array_equal(session.run(made), expected)


def test_variables_have_the_names_of_then() -> None:
    gender = layers.sparse_column_with_keys("gender", ["female", "male"])
    age = layers.real_valued_column("age")
    with tf.Graph().as_default(), v1.Session() as session:
        example = tf.train.Example()
        example.features.feature["gender"].bytes_list.value.append(b"male")
        example.features.feature["age"].float_list.value.append(20.0)
        features = layers.parse_feature_columns_from_examples(
            [example.SerializeToString()], [gender, age]
        )
        layers.input_from_feature_columns(features, [layers.embedding_column(gender, 3)])
        sums, variables, bias = layers.weighted_sum_from_feature_columns(
            features, [gender, age], num_outputs=2
        )
        assert sorted(one.op.name for one in v1.global_variables()) == [
            "input_from_feature_columns/gender_embedding/weights",
            "weighted_sum_from_feature_columns/age/weight",
            "weighted_sum_from_feature_columns/bias_weight",
            "weighted_sum_from_feature_columns/gender/weights",
        ]
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        session.run([bias.assign([1.0, 2.0]), variables[age][0].assign([[0.5, 0.1]])])
        np.testing.assert_allclose(session.run(sums), [[11.0, 4.0]])


def test_tables_begin_with_a_spread_by_their_rows() -> None:
    ids = layers.sparse_column_with_integerized_feature("decade", 400)
    column = layers.embedding_column(ids, 50)
    assert column.initializer([400, 50]).numpy().std() == pytest.approx(0.88 / 20, rel=0.05)
    spec = layers.create_feature_spec_for_parsing([column, layers.real_valued_column("age", 2)])
    assert spec["age"].shape == (2,)
    assert spec["decade"].dtype == tf.int64


def test_what_cannot_be_said_with_columns_of_today() -> None:
    with pytest.raises(ValueError, match="given combiner='mean'"):
        layers.sparse_column_with_hash_bucket("job", 10, combiner="mean")
    with pytest.raises(ValueError, match="Give a dimension"):
        layers.real_valued_column("age", dimension=None)
