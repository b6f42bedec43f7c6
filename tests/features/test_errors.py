"""Columns and features that do not fit: one sentence with the column, the key and what there is."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from estimand.features import fast_path

fc = est.feature_column
FLOATS = tf.constant([1.0, 2.0])
STRINGS = tf.constant(["a", "b"])
SPARSE = tf.sparse.from_dense([[1.0], [2.0]])


def hashed(key: str = "c", dtype: tf.DType = tf.string) -> Any:
    return fc.categorical_column_with_hash_bucket(key, 5, dtype=dtype)


WRONG_FEATURES: dict[str, tuple[Callable[[], Any], dict[str, Any], list[str]]] = {
    "missing": (
        lambda: fc.numeric_column("age"),
        {"aeg": FLOATS},
        ["Feature age is not in features dictionary", "'age'", "'aeg' (float32 (2,))"],
    ),
    "missing_under_an_embedding": (
        lambda: fc.embedding_column(hashed("job"), 2),
        {"x": FLOATS},
        ["'job_embedding'", "reads the feature 'job'", "'x'"],
    ),
    "missing_in_a_cross": (
        lambda: fc.indicator_column(fc.crossed_column(["c", "d"], 5)),
        {"c": STRINGS},
        ["'c_X_d_indicator'", "reads the feature 'd'"],
    ),
    "string_for_numbers": (
        lambda: fc.numeric_column("age"),
        {"age": STRINGS},
        ["Column 'age'", "string (2,)", "takes numbers"],
    ),
    "sparse_for_numbers": (
        lambda: fc.numeric_column("age"),
        {"age": SPARSE},
        ["SparseTensor is not supported. key: age", "Column 'age'"],
    ),
    "float_for_identity": (
        lambda: fc.indicator_column(fc.categorical_column_with_identity("i", 3)),
        {"i": FLOATS},
        ["'i_indicator'", "Invalid input, not integer. key: i", "float32 (2,)"],
    ),
    "float_for_hash": (
        lambda: fc.indicator_column(hashed()),
        {"c": FLOATS},
        ["'c_indicator'", "float32 (2,)"],
    ),
    "integers_for_strings": (
        lambda: fc.indicator_column(fc.categorical_column_with_vocabulary_list("c", ["a"])),
        {"c": tf.constant([1, 2])},
        ["Column dtype and SparseTensors dtype must be compatible", "key: c", "int32 (2,)"],
    ),
    "strings_for_integers": (
        lambda: fc.indicator_column(hashed(dtype=tf.int64)),
        {"c": STRINGS},
        ["Column dtype and SparseTensors dtype must be compatible", "string (2,)"],
    ),
    "wrong_width": (
        lambda: fc.numeric_column("v", shape=(3,)),
        {"v": tf.zeros([2, 4])},
        ["Column 'v' has 3 values", "'v' (float32 (2, 4)) gives 4", "shape=(4,)"],
    ),
    "scalar": (
        lambda: fc.numeric_column("x"),
        {"x": tf.constant(1.0)},
        ["Feature (key: x) cannot have rank 0"],
    ),
    "batch_sizes": (
        lambda: [fc.numeric_column("x"), fc.numeric_column("y")],
        {"x": tf.zeros([2]), "y": tf.zeros([3])},
        ["Batch size (first dimension) of each feature must be same", "(x, y): (2, 3)"],
    ),
}


@pytest.mark.parametrize("fast", [True, False], ids=["dense_ids", "plain"])
@pytest.mark.parametrize("case", WRONG_FEATURES)
def test_features_that_do_not_fit(case: str, fast: bool) -> None:
    make, features, parts = WRONG_FEATURES[case]
    with fast_path(fast), pytest.raises(est.errors.FeatureColumnError) as caught:
        fc.input_layer(features, make())
    assert isinstance(caught.value, ValueError)
    for part in parts:
        assert part in str(caught.value)


def test_linear_model_names_the_column_of_a_missing_feature() -> None:
    with tf.Graph().as_default(), pytest.raises(ValueError, match=r"Column 'c' reads.*'x'"):
        fc.linear_model({"x": tf.zeros([2])}, [hashed()])


def test_long_lists_of_features_are_cut() -> None:
    features = {f"f{i:03}": FLOATS for i in range(50)}
    with pytest.raises(ValueError, match=r"'f019' .* and 30 more") as caught:
        fc.input_layer(features, [fc.numeric_column("x")])
    assert "'f020'" not in str(caught.value)


NUMBERS = fc.numeric_column("tenure")
WRONG_PARTS: dict[str, tuple[Callable[[], Any], str]] = {
    "embedding_of_numbers": (
        lambda: fc.embedding_column(NUMBERS, 3),
        "Unsupported input type. Input must be a CategoricalColumn. Given to embedding_column: the "
        "NumericColumn 'tenure'. A model takes numbers without embedding_column; or put them into "
        "buckets first: bucketized_column(numeric_column('tenure'), boundaries=[...]).",
    ),
    "shared_embedding_of_numbers": (
        lambda: fc.shared_embeddings([NUMBERS], 3),
        "Unsupported input type. Input must be a CategoricalColumn. Given to shared_embeddings: "
        "the NumericColumn 'tenure'. A model takes numbers without shared_embeddings; or put them "
        "into buckets first: bucketized_column(numeric_column('tenure'), boundaries=[...]).",
    ),
    "indicator_of_a_name": (
        lambda: fc.indicator_column("plan"),
        "Unsupported input type. Input must be a CategoricalColumn. Given to indicator_column: the "
        "string 'plan'. Write indicator_column(categorical_column_with_vocabulary_list('plan', "
        "[...])), with the words there are.",
    ),
    "buckets_of_a_name": (
        lambda: fc.bucketized_column("tenure", [5, 10]),
        "source_column must be a column generated with numeric_column(). Given: the string "
        "'tenure'. Write bucketized_column(numeric_column('tenure'), [5, 10]).",
    ),
    "buckets_of_words": (
        lambda: fc.bucketized_column(hashed("plan"), [5, 10]),
        "source_column must be a column generated with numeric_column(). Given: the "
        "HashedCategoricalColumn 'plan'. Only numbers can be put into buckets; words are "
        "categories as they are.",
    ),
    "boundaries_not_sorted": (
        lambda: fc.bucketized_column(NUMBERS, [10, 5]),
        "boundaries must be a sorted list. Given for the column 'tenure': [10, 5]. Each has to be "
        "larger than the one before: [5, 10].",
    ),
    "boundaries_no_list": (
        lambda: fc.bucketized_column(NUMBERS, 5),
        "boundaries must be a sorted list. Given for the column 'tenure': 5. Write numbers in a "
        "list, each larger than the one before: boundaries=[1, 10, 100].",
    ),
    "cross_of_numbers": (
        lambda: fc.crossed_column([NUMBERS, "plan"], 10),
        "Unsupported key type. All keys must be either string, or categorical column except "
        "HashedCategoricalColumn. Given: the NumericColumn 'tenure'. Put them into buckets first: "
        "bucketized_column(numeric_column('tenure'), boundaries=[...]).",
    ),
    "cross_of_a_hash": (
        lambda: fc.crossed_column([hashed("city"), "plan"], 10),
        "Unsupported key type. All keys must be either string, or categorical column except "
        "HashedCategoricalColumn. Given: the HashedCategoricalColumn 'city'. A cross hashes by "
        "itself: give the name 'city' in its place.",
    ),
    "cross_of_a_name": (
        lambda: fc.crossed_column("plan", 10),
        "keys must be a list with length > 1. Given: 'plan'. Write crossed_column(['plan', "
        "'another feature'], hash_bucket_size).",
    ),
}


@pytest.mark.parametrize("case", WRONG_PARTS)
def test_what_a_column_cannot_be_made_of(case: str) -> None:
    make, message = WRONG_PARTS[case]
    with pytest.raises(est.errors.FeatureColumnError) as caught:
        make()
    assert str(caught.value) == message


WRONG_COLUMNS: dict[str, tuple[Callable[[], Any], str]] = {
    "a_string": (lambda: "age", "must be a list of feature columns. Given: 'age'"),
    "a_string_in_a_list": (lambda: ["age"], "Items of feature_columns must be a FeatureColumn"),
    "a_dict": (lambda: {"a": hashed()}, "Expected feature_columns to be iterable, found dict"),
    "nothing": (lambda: [], "feature_columns must not be empty"),
    "twice": (
        lambda: [fc.numeric_column("x"), fc.numeric_column("x", dtype=tf.float64)],
        "Duplicate feature column name found",
    ),
    "categorical": (
        lambda: [hashed()],
        "You can wrap a categorical column with an embedding_column or indicator_column",
    ),
    "sequence": (
        lambda: [fc.sequence_numeric_column("n")],
        "Column 'n' is a sequence column",
    ),
}


@pytest.mark.parametrize("case", WRONG_COLUMNS)
def test_columns_that_an_input_layer_cannot_take(case: str) -> None:
    make, message = WRONG_COLUMNS[case]
    with pytest.raises(est.errors.FeatureColumnError, match=re.escape(message)):
        fc.input_layer({"c": STRINGS, "x": FLOATS}, make())


def test_sequence_layer_refuses_other_columns() -> None:
    with pytest.raises(ValueError, match="must be of type SequenceCategoricalColumn"):
        fc.sequence_input_layer({"c": STRINGS}, [fc.embedding_column(hashed(), 2)])


def test_features_have_to_be_a_dict() -> None:
    with pytest.raises(ValueError, match="features should be a dictionary of `Tensor`s"):
        fc.input_layer(np.zeros((2, 3)), [fc.numeric_column("x")])


def test_sequences_of_different_lengths_are_refused() -> None:
    features = {
        "a": tf.ragged.constant([[1.0, 2.0], [3.0]]),
        "b": tf.ragged.constant([[1.0], [3.0]]),
    }
    columns = [fc.sequence_numeric_column("a"), fc.sequence_numeric_column("b")]
    with pytest.raises((tf.errors.InvalidArgumentError, ValueError)):
        fc.sequence_input_layer(features, columns)
