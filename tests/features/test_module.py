"""`est.feature_column` as a module: complete, quiet, and TensorFlow's own objects."""

from __future__ import annotations

import inspect
import logging

import pytest
import tensorflow as tf

import estimand as est
from estimand.features import out_of_vocabulary

fc = est.feature_column


def public(module: object) -> set[str]:
    return {name for name in dir(module) if not name.startswith("_")}


def test_everything_of_tensorflows_modules_is_there() -> None:
    wanted = public(tf.feature_column) | public(tf.compat.v1.feature_column)
    assert {"shared_embeddings", "shared_embedding_columns", "linear_model"} <= wanted
    assert wanted <= set(fc.__all__)
    assert all(getattr(fc, name) is not None for name in fc.__all__)


@pytest.mark.parametrize("name", sorted(public(tf.feature_column) - {"make_parse_example_spec"}))
def test_signatures_are_those_of_tensorflow(name: str) -> None:
    theirs = inspect.signature(inspect.unwrap(getattr(tf.feature_column, name)))
    assert inspect.signature(getattr(fc, name)) == theirs


@pytest.mark.parametrize("name", ["input_layer", "linear_model"])
def test_layers_take_what_v1_ones_take(name: str) -> None:
    theirs = inspect.signature(inspect.unwrap(getattr(tf.compat.v1.feature_column, name)))
    ours = inspect.signature(getattr(fc, name))
    assert list(ours.parameters) == list(theirs.parameters)
    assert [p.default for p in ours.parameters.values()] == [
        p.default for p in theirs.parameters.values()
    ]


def test_no_deprecation_notice_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    from tensorflow.python.util import deprecation  # noqa: TID251  each notice comes only once

    deprecation._PRINTED_WARNING.clear()
    logger = logging.getLogger("tensorflow")
    logger.addHandler(caplog.handler)
    try:
        words = fc.categorical_column_with_hash_bucket("c", 5)
        weighted = fc.weighted_categorical_column(words, "w")
        shared = fc.shared_embedding_columns([words], 2)
        sequence = fc.sequence_categorical_column_with_identity("s", 3)
        features = {
            "c": tf.sparse.from_dense([["a", "b"], ["c", ""]]),
            "w": tf.sparse.from_dense([[1.0, 2.0], [3.0, 0.0]]),
            "s": tf.sparse.from_dense(tf.constant([[1, 2], [2, 0]], tf.int64)),
        }
        with tf.Graph().as_default():
            inside = tf.nest.map_structure(
                lambda t: tf.SparseTensor(t.indices.numpy(), t.values.numpy(), t.shape), features
            )
            fc.input_layer(inside, [fc.indicator_column(weighted), *shared])
            fc.linear_model(inside, [weighted])
            fc.sequence_input_layer(inside, [fc.indicator_column(sequence)])
    finally:
        logger.removeHandler(caplog.handler)
    assert [r.getMessage() for r in caplog.records if "deprecated" in r.getMessage()] == []
    assert logger.filters == []


def test_fractions_of_missing_and_unknown_values() -> None:
    c = fc.categorical_column_with_vocabulary_list("c", ["a", "b"], num_oov_buckets=3)
    i = fc.categorical_column_with_identity("i", 3, default_value=0)
    features = {
        "c": tf.constant([["a", ""], ["q", "b"]]),
        "i": tf.sparse.from_dense(tf.constant([[1, 9], [0, 0], [2, 0], [-4, 7]], tf.int64)),
    }
    found = out_of_vocabulary([fc.embedding_column(c, 2), fc.indicator_column(i)], features)
    # i: the values 1 9, none, 2, -4 7, of which 9, -4 and 7 are outside of 0..2
    assert found == {"c": (0.25, 0.25), "i": (1 / 6, 3 / 6)}


def test_hashed_columns_have_no_unknown_values() -> None:
    column = fc.categorical_column_with_hash_bucket("c", 3)
    assert out_of_vocabulary(column, {"c": ["x"]}) == {}
