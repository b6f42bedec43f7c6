"""Columns and batches on which both TensorFlow's own feature columns and ours are run.

Written for any TensorFlow: `make_fixtures.py` runs it with 2.15, the tests with the present one.
`fc` is the module with the constructors.
"""

from __future__ import annotations

import os
import zlib

import numpy as np
import tensorflow as tf

VOCABULARY_FILE = os.path.join(os.path.dirname(__file__), "fixtures", "vocabulary.txt")

# One value per example; '' and -1 are missing values, "zzz" and 9 are unknown ones.
DENSE = {
    "s": np.array([b"a", b"", b"zzz", b"b", b"a"], object),
    "t": np.array([b"red", b"blue", b"", b"red", b"green"], object),
    "i": np.array([0, -1, 3, 2, 1], np.int64),
    "wild": np.array([0, -1, 9, -7, 1], np.int64),
    "i32": np.array([5, 6, -1, 5, 7], np.int32),
    "x": np.array([0.5, -1.0, 3.0, 1e9, -1e9], np.float32),
    "nan": np.array([0.5, np.nan, 3.0, -2.0, np.inf], np.float32),
    "v": np.arange(10, dtype=np.float32).reshape(5, 2) - 4,
    "three": np.array([["a", "b", ""], ["", "", ""], ["c", "c", "c"]] + [["b", "x", "a"]] * 2),
}
# Several values per example, or none: (values, rows' lengths)
SEVERAL = {
    "s": ([b"a", b"b", b"b", b"zzz", b"", b"c"], [2, 0, 1, 3, 0]),
    "t": ([b"red", b"blue", b"red"], [1, 0, 1, 1, 0]),
    "i": (np.array([0, 3, 3, 1, 2, -1], np.int64), [1, 1, 0, 2, 2]),
    "w": (np.array([0.5, -1.0, 2.0, 0.0, 1.5, 3.0], np.float32), [2, 0, 1, 3, 0]),
    "n": (np.arange(12, dtype=np.float32), [4, 2, 0, 6, 0]),
    "seq_s": ([b"a", b"b", b"zzz", b"c", b"a", b"a"], [2, 1, 0, 3, 0]),
    "seq_i": (np.array([0, 3, 1, 2, 2, -1], np.int64), [2, 1, 0, 3, 0]),
}


def dense_features(rank):
    """The features with one value per example, as [batch] or [batch, 1]."""
    return {
        key: tf.constant(value if rank == 1 or value.ndim > 1 else value[:, None])
        for key, value in DENSE.items()
    }


def sparse_features():
    """The same keys and more, as the sparse tensors that a VarLenFeature yields."""
    features = dense_features(1)
    for key, (values, lengths) in SEVERAL.items():
        indices = [[row, j] for row, length in enumerate(lengths) for j in range(length)]
        values = tf.constant(values)
        features[key] = tf.SparseTensor(indices, values, [len(lengths), max(lengths)])
    return features


def _categorical(fc):
    return {
        "hash": fc.categorical_column_with_hash_bucket("s", 7),
        "hash_int": fc.categorical_column_with_hash_bucket("i32", 11, dtype=tf.int32),
        "list": fc.categorical_column_with_vocabulary_list("s", ["a", "b", "c"]),
        "list_oov": fc.categorical_column_with_vocabulary_list(
            "s", ["a", "b", "c"], num_oov_buckets=2
        ),
        "list_default": fc.categorical_column_with_vocabulary_list(
            "s", ["a", "b", "c"], default_value=2
        ),
        "list_with_empty": fc.categorical_column_with_vocabulary_list("s", ["", "a", "b"]),
        "list_int": fc.categorical_column_with_vocabulary_list("i32", [7, 5]),
        "file": fc.categorical_column_with_vocabulary_file("s", VOCABULARY_FILE),
        "file_oov": fc.categorical_column_with_vocabulary_file(
            "s", VOCABULARY_FILE, vocabulary_size=3, num_oov_buckets=2
        ),
        "identity": fc.categorical_column_with_identity("i", 4),
        "identity_default": fc.categorical_column_with_identity("wild", 4, default_value=2),
    }


def _buckets(fc):
    x = fc.numeric_column("x")
    return {
        "bucket": fc.bucketized_column(x, [-5.0, 0.0, 2.0]),
        "bucket_nan": fc.bucketized_column(fc.numeric_column("nan"), [0.0, 2.0]),
        "bucket_vector": fc.bucketized_column(fc.numeric_column("v", shape=(2,)), [-2.0, 3.0]),
    }


def _crosses(fc):
    kinds, buckets = _categorical(fc), _buckets(fc)
    return {
        "cross_keys": fc.crossed_column(["s", "t"], 13),
        "cross_three": fc.crossed_column(["t", buckets["bucket"], "s"], 17),
        "cross_key_first": fc.crossed_column(["t", kinds["list"]], 17),
        "cross_columns": fc.crossed_column([kinds["identity"], kinds["list"]], 19, hash_key=5),
        "cross_nested": fc.crossed_column(
            [fc.crossed_column(["s", "t"], 5), kinds["identity"]], 23
        ),
        "cross_int_keys": fc.crossed_column(["i", "i32"], 9),
    }


def dense_input_columns(fc):
    """Name -> columns for an input layer over dense features."""
    kinds = _categorical(fc)
    buckets = _buckets(fc)
    cases = {
        "numeric": [
            fc.numeric_column("x"),
            fc.numeric_column("v", shape=(2,)),
            fc.numeric_column("i", normalizer_fn=lambda value: (value - 3) * 2),
            fc.numeric_column("nan"),
        ],
        **{name: [column] for name, column in buckets.items()},
    }
    for name, column in {**kinds, **_crosses(fc)}.items():
        cases["embedding_" + name] = [fc.embedding_column(column, 3)]
        cases["indicator_" + name] = [fc.indicator_column(column)]
    bucket = buckets["bucket"]
    cases.update(
        embedding_bucket=[fc.embedding_column(bucket, 2)],
        embedding_bucket_unsafe=[fc.embedding_column(bucket, 2, use_safe_embedding_lookup=False)],
        indicator_bucket=[fc.indicator_column(bucket)],
        embedding_bucket_vector=[fc.embedding_column(buckets["bucket_vector"], 2)],
        max_norm=[fc.embedding_column(kinds["hash"], 3, max_norm=0.7)],
        combiner_sum=[fc.embedding_column(kinds["hash"], 3, combiner="sum")],
        combiner_sqrtn=[fc.embedding_column(kinds["list"], 3, combiner="sqrtn")],
        several_values=[fc.embedding_column(fc.categorical_column_with_hash_bucket("three", 5), 2)],
        identity_indicator_out_of_range=[
            fc.indicator_column(fc.categorical_column_with_identity("wild", 4))
        ],
        shared=_shared(fc),
        together=[
            fc.numeric_column("x"),
            bucket,
            fc.embedding_column(kinds["hash"], 3),
            fc.indicator_column(kinds["identity"]),
        ],
    )
    return cases


def _shared(fc):
    return fc.shared_embedding_columns(
        [
            fc.categorical_column_with_hash_bucket("s", 7),
            fc.categorical_column_with_hash_bucket("t", 7),
        ],
        dimension=2,
        max_norm=1.5,
    )


def sparse_input_columns(fc):
    """Name -> columns for an input layer over sparse features."""
    kinds = _categorical(fc)
    cases = {}
    for name in ("hash", "list", "list_oov", "file", "identity"):
        for combiner in ("mean", "sum", "sqrtn"):
            column = fc.embedding_column(kinds[name], 3, combiner=combiner)
            cases[f"embedding_{name}_{combiner}"] = [column]
        cases["indicator_" + name] = [fc.indicator_column(kinds[name])]
    weighted = fc.weighted_categorical_column(kinds["hash"], "w")
    cases.update(
        max_norm=[fc.embedding_column(kinds["hash"], 3, max_norm=0.7)],
        weighted_mean=[fc.embedding_column(weighted, 3)],
        weighted_sum=[fc.embedding_column(weighted, 3, combiner="sum")],
        weighted_indicator=[fc.indicator_column(weighted)],
        cross=[fc.indicator_column(fc.crossed_column(["s", "t"], 13))],
        cross_columns=[
            fc.embedding_column(fc.crossed_column([kinds["list"], "t", kinds["identity"]], 13), 2)
        ],
        shared=_shared(fc),
    )
    return cases


def dense_linear_columns(fc):
    """Name -> columns for a linear model over dense features."""
    cases = {
        name: [column]
        for name, column in {**_categorical(fc), **_buckets(fc), **_crosses(fc)}.items()
    }
    together = [
        fc.numeric_column("x"),
        fc.numeric_column("v", shape=(2,)),
        _buckets(fc)["bucket"],
        _categorical(fc)["hash"],
        _categorical(fc)["identity"],
        fc.embedding_column(fc.categorical_column_with_hash_bucket("t", 5), 2),
        fc.crossed_column(["s", "t"], 13),
    ]
    return {**cases, "together": together}


def sparse_linear_columns(fc):
    """Name -> columns for a linear model over sparse features."""
    kinds = _categorical(fc)
    return {
        "hash": [kinds["hash"]],
        "list": [kinds["list"]],
        "identity": [kinds["identity"]],
        "weighted": [fc.weighted_categorical_column(kinds["hash"], "w")],
        "cross": [fc.crossed_column(["s", "t"], 13)],
    }


def sequence_columns(fc):
    """Name -> columns for a layer of sequences."""
    by_name = fc.sequence_categorical_column_with_vocabulary_list("seq_s", ["a", "b", "c"])
    by_hash = fc.sequence_categorical_column_with_hash_bucket("seq_s", 5)
    by_file = fc.sequence_categorical_column_with_vocabulary_file("seq_s", VOCABULARY_FILE)
    by_id = fc.sequence_categorical_column_with_identity("seq_i", 4)
    return {
        "embedding": [fc.embedding_column(by_name, 3)],
        "hash": [fc.embedding_column(by_hash, 2)],
        "file": [fc.indicator_column(by_file)],
        "indicator": [fc.indicator_column(by_name)],
        "numeric": [fc.sequence_numeric_column("n")],
        "numeric_pairs": [
            fc.sequence_numeric_column("n", (2,), normalizer_fn=lambda sparse: sparse * 0.5)
        ],
        "two": [fc.embedding_column(by_name, 3), fc.embedding_column(by_id, 2)],
    }


def fixed_value(name, shape):
    """The value that the variable of this name gets, in every TensorFlow the same."""
    key = "/".join(name.split(":")[0].split("/")[-2:])
    random = np.random.RandomState(zlib.crc32(key.encode()) % 2**31)
    return random.normal(size=shape).astype(np.float32)


def fixed_factors(shape):
    """What outputs are multiplied with before they are summed up for gradients."""
    return np.random.RandomState(3).normal(size=shape).astype(np.float32)
