"""`est.feature_column`: how raw features become what a model can take.

Every constructor of `tf.feature_column`, and what only `tf.compat.v1.feature_column` has. The
columns are TensorFlow's own objects, made without its deprecation notices; columns made with
`tf.feature_column.*` can be passed wherever these can.

>>> import estimand as est
>>> fc = est.feature_column
>>> age = fc.numeric_column("age")
>>> columns = [age, fc.indicator_column(fc.bucketized_column(age, [30.0, 60.0]))]
>>> sorted(fc.make_parse_example_spec(columns))
['age']
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from estimand.core.errors import FeatureColumnError
from estimand.features.layers import input_layer, linear_model, sequence_input_layer
from estimand.features.making import checked, of_categories, of_keys, of_many_categories, of_numbers
from estimand.features.parsing import make_parse_example_spec
from estimand.features.quiet import no_deprecation_notices, without_notice

if TYPE_CHECKING:
    from estimand.features.keras_layers import DenseFeatures, LinearModel, SequenceFeatures

__all__ = [
    "DenseFeatures",
    "LinearModel",
    "SequenceFeatures",
    "bucketized_column",
    "categorical_column_with_hash_bucket",
    "categorical_column_with_identity",
    "categorical_column_with_vocabulary_file",
    "categorical_column_with_vocabulary_list",
    "crossed_column",
    "embedding_column",
    "indicator_column",
    "input_layer",
    "linear_model",
    "make_parse_example_spec",
    "numeric_column",
    "sequence_categorical_column_with_hash_bucket",
    "sequence_categorical_column_with_identity",
    "sequence_categorical_column_with_vocabulary_file",
    "sequence_categorical_column_with_vocabulary_list",
    "sequence_input_layer",
    "sequence_numeric_column",
    "shared_embedding_columns",
    "shared_embeddings",
    "weighted_categorical_column",
]


def _quiet(constructor: Callable[..., Any]) -> Callable[..., Any]:
    plain = without_notice(constructor)

    @functools.wraps(plain)
    def make(*args: Any, **kwargs: Any) -> Any:
        with no_deprecation_notices():
            return plain(*args, **kwargs)

    return make


def _naming_the_file(make: Callable[..., Any]) -> Callable[..., Any]:
    """TensorFlow does not say which one it has not found."""

    @functools.wraps(make)
    def with_file(key: str, vocabulary_file: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return make(key, vocabulary_file, *args, **kwargs)
        except ValueError as error:
            if "does not exist" not in str(error):
                raise
            raise FeatureColumnError(
                f"vocabulary_file in {key} does not exist: {str(vocabulary_file)!r}. Give the path "
                f"of a text file with one word per line; the program runs in {os.getcwd()!r}."
            ) from error

    return with_file


def _quiet_anywhere(constructor: Callable[..., Any]) -> Callable[..., Any]:
    """For constructors that refuse to be called eagerly, though they build nothing yet."""
    make = _quiet(constructor)

    @functools.wraps(make)
    def make_in_graph(*args: Any, **kwargs: Any) -> Any:
        with tf.Graph().as_default():
            return make(*args, **kwargs)

    return make_in_graph


_tf = tf.feature_column

# Features that are numbers
numeric_column = _quiet(_tf.numeric_column)
bucketized_column = checked(_quiet(_tf.bucketized_column), of_numbers)

# Features that are one of many
categorical_column_with_hash_bucket = _quiet(_tf.categorical_column_with_hash_bucket)
categorical_column_with_identity = _quiet(_tf.categorical_column_with_identity)
categorical_column_with_vocabulary_file = _naming_the_file(
    _quiet(_tf.categorical_column_with_vocabulary_file)
)
categorical_column_with_vocabulary_list = _quiet(_tf.categorical_column_with_vocabulary_list)
crossed_column = checked(_quiet(_tf.crossed_column), of_keys)
weighted_categorical_column = checked(_quiet(_tf.weighted_categorical_column), of_categories)

# Categorical columns made dense
embedding_column = checked(_quiet(_tf.embedding_column), of_categories)
indicator_column = checked(_quiet(_tf.indicator_column), of_categories)
shared_embeddings = checked(
    _quiet_anywhere(_tf.shared_embeddings), of_many_categories, "shared_embeddings"
)
shared_embedding_columns = checked(
    _quiet_anywhere(tf.compat.v1.feature_column.shared_embedding_columns), of_many_categories
)

# Sequences
sequence_categorical_column_with_hash_bucket = _quiet(
    _tf.sequence_categorical_column_with_hash_bucket
)
sequence_categorical_column_with_identity = _quiet(_tf.sequence_categorical_column_with_identity)
sequence_categorical_column_with_vocabulary_file = _naming_the_file(
    _quiet(_tf.sequence_categorical_column_with_vocabulary_file)
)
sequence_categorical_column_with_vocabulary_list = _quiet(
    _tf.sequence_categorical_column_with_vocabulary_list
)
sequence_numeric_column = _quiet(_tf.sequence_numeric_column)


def __dir__() -> list[str]:
    return __all__


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in ("DenseFeatures", "LinearModel", "SequenceFeatures"):
            from estimand.features import keras_layers  # imports Keras, which takes its time

            return getattr(keras_layers, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
