"""`tf.contrib.lookup`: from words to numbers and back, on today's tables."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_WHOLE, _LINE = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER


def index_table_from_tensor(
    mapping: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: Any = None,
    dtype: Any = tf.string,
    name: str | None = None,
) -> Any:
    """Words to their places in `mapping`; others to a bucket after them, or `default_value`."""
    del hasher_spec
    keys = tf.cast(tf.convert_to_tensor(mapping), dtype)
    places = tf.range(tf.size(keys, tf.int64), dtype=tf.int64)
    pairs = tf.lookup.KeyValueTensorInitializer(keys, places)
    return _table(pairs, num_oov_buckets, default_value, name)


def index_table_from_file(
    vocabulary_file: str,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    hasher_spec: Any = None,
    key_dtype: Any = tf.string,
    name: str | None = None,
    key_column_index: int = _WHOLE,
    value_column_index: int = _LINE,
    delimiter: str = "\t",
) -> Any:
    """Words to the numbers of their lines in a file."""
    del hasher_spec
    pairs = tf.lookup.TextFileInitializer(
        vocabulary_file,
        key_dtype,
        key_column_index,
        tf.int64,
        value_column_index,
        vocab_size=vocab_size,
        delimiter=delimiter,
    )
    return _table(pairs, num_oov_buckets, default_value, name)


def index_to_string_table_from_tensor(
    mapping: Any, default_value: str = "UNK", name: str | None = None
) -> Any:
    """Numbers to the words at their places in `mapping`."""
    words = tf.convert_to_tensor(mapping, tf.string)
    places = tf.range(tf.size(words, tf.int64), dtype=tf.int64)
    pairs = tf.lookup.KeyValueTensorInitializer(places, words)
    return tf.lookup.StaticHashTable(pairs, default_value, name=name)


def index_to_string_table_from_file(
    vocabulary_file: str,
    vocab_size: int | None = None,
    default_value: str = "UNK",
    name: str | None = None,
    key_column_index: int = _LINE,
    value_column_index: int = _WHOLE,
    delimiter: str = "\t",
) -> Any:
    """Numbers of lines in a file to their words."""
    pairs = tf.lookup.TextFileInitializer(
        vocabulary_file,
        tf.int64,
        key_column_index,
        tf.string,
        value_column_index,
        vocab_size=vocab_size,
        delimiter=delimiter,
    )
    return tf.lookup.StaticHashTable(pairs, default_value, name=name)


def _table(pairs: Any, buckets: int, default_value: int, name: str | None) -> Any:
    if buckets:
        return tf.lookup.StaticVocabularyTable(pairs, buckets, name=name)
    return tf.lookup.StaticHashTable(pairs, default_value, name=name)
