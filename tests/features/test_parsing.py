"""Parse specs: what the columns of tf.estimator ask of a tf.Example."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

import estimand as est
from estimand.features import feature_keys

fc = est.feature_column
FixedLen, VarLen = tf.io.FixedLenFeature, tf.io.VarLenFeature


def columns() -> list[Any]:
    occupation = fc.categorical_column_with_hash_bucket("occupation", 10)
    city = fc.categorical_column_with_hash_bucket("city", 10)
    age = fc.numeric_column("age", default_value=3.0)
    return [
        fc.bucketized_column(age, [1.0]),
        fc.embedding_column(occupation, 2),
        fc.crossed_column(["a", "b"], 5),
        fc.weighted_categorical_column(city, "weight_of_city"),
        fc.indicator_column(fc.categorical_column_with_identity("id", 3)),
        *fc.shared_embeddings([occupation, city], 2),
        fc.sequence_numeric_column("times"),
    ]


SPEC = {
    "a": VarLen(tf.string),
    "age": FixedLen((1,), tf.float32, (3.0,)),
    "b": VarLen(tf.string),
    "city": VarLen(tf.string),
    "id": VarLen(tf.int64),
    "occupation": VarLen(tf.string),
    "times": VarLen(tf.float32),
    "weight_of_city": VarLen(tf.float32),
}


def test_spec_of_columns() -> None:
    assert fc.make_parse_example_spec(columns()) == SPEC


def test_spec_of_v1_shared_columns() -> None:
    city = fc.categorical_column_with_hash_bucket("city", 10)
    assert fc.make_parse_example_spec(fc.shared_embedding_columns([city], 2)) == {
        "city": VarLen(tf.string)
    }


def test_spec_of_a_classifier() -> None:
    spec = est.classifier_parse_example_spec(columns(), "label", weight_column="w")
    label, weight = FixedLen((1,), tf.int64, None), FixedLen((1,), tf.float32, None)
    assert spec == {**SPEC, "label": label, "w": weight}


def test_spec_of_a_classifier_with_string_labels() -> None:
    spec = est.classifier_parse_example_spec(
        [fc.numeric_column("x")], "label", label_dtype=tf.string, label_default="none"
    )
    assert spec["label"] == FixedLen((1,), tf.string, "none")


def test_spec_of_a_regressor() -> None:
    weight = fc.numeric_column("w", dtype=tf.float64)
    spec = est.regressor_parse_example_spec(
        columns(), "label", label_dimension=3, weight_column=weight
    )
    label = FixedLen((3,), tf.float32, None)
    assert spec == {**SPEC, "label": label, "w": FixedLen((1,), tf.float64, None)}


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"label_key": "age"}, "label should not be used as feature. label_key: age"),
        ({"label_key": "y", "weight_column": "age"}, "weight_column should not be used as feature"),
        ({"label_key": "y", "weight_column": 3}, "weight_column should be an instance of"),
    ],
)
def test_label_and_weight_are_no_features(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        est.regressor_parse_example_spec(columns(), **arguments)


def test_one_key_read_in_two_ways_is_refused() -> None:
    two = [fc.numeric_column("x"), fc.categorical_column_with_identity("x", 3)]
    with pytest.raises(ValueError, match="different parse_spec for key x"):
        fc.make_parse_example_spec(two)


def test_what_is_no_column_is_refused() -> None:
    with pytest.raises(ValueError, match=r"must be FeatureColumn instances\. Given: 'x'"):
        fc.make_parse_example_spec(["x"])


def test_keys_of_columns() -> None:
    assert feature_keys(columns()) == sorted(SPEC)


def test_parsed_examples_go_through_the_columns() -> None:
    def example(age: float, words: list[bytes]) -> bytes:
        feature = {
            "age": tf.train.Feature(float_list=tf.train.FloatList(value=[age])),
            "w": tf.train.Feature(bytes_list=tf.train.BytesList(value=words)),
        }
        return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()

    words = fc.categorical_column_with_vocabulary_list("w", ["a", "b"])
    used = [fc.numeric_column("age"), fc.indicator_column(words)]
    records = [example(1.0, [b"a", b"b", b"a"]), example(2.0, [])]
    features = tf.io.parse_example(records, fc.make_parse_example_spec(used))
    assert fc.input_layer(features, used).numpy().tolist() == [[1, 2, 1], [2, 0, 0]]
