"""`tf.contrib.layers`: the feature columns of 2016, on those of `tf.feature_column`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from estimand.compat.v1.contrib_modules.layers import column_variables
from estimand.core.errors import ConfigError

v1 = tf.compat.v1
columns = tf.feature_column


def real_valued_column(
    column_name: str,
    dimension: int | None = 1,
    default_value: Any = None,
    dtype: Any = tf.float32,
    normalizer: Any = None,
) -> Any:
    """Numbers, `dimension` of them for each example."""
    if dimension is None:
        raise ConfigError(
            f"real_valued_column({column_name!r}, dimension=None) is not offered. Give a dimension."
        )
    return columns.numeric_column(column_name, (dimension,), default_value, dtype, normalizer)


def sparse_column_with_hash_bucket(
    column_name: str, hash_bucket_size: int, combiner: str = "sum", dtype: Any = tf.string
) -> Any:
    """Words or numbers, by their hash."""
    _check_combiner(column_name, combiner)
    return columns.categorical_column_with_hash_bucket(column_name, hash_bucket_size, dtype)


def sparse_column_with_keys(
    column_name: str,
    keys: Sequence[Any],
    default_value: int = -1,
    combiner: str = "sum",
    dtype: Any = tf.string,
) -> Any:
    """Words, by their place in a list."""
    _check_combiner(column_name, combiner)
    return columns.categorical_column_with_vocabulary_list(column_name, keys, dtype, default_value)


def sparse_column_with_vocabulary_file(
    column_name: str,
    vocabulary_file: str,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    combiner: str = "sum",
    dtype: Any = tf.string,
) -> Any:
    """Words, by their line in a file."""
    _check_combiner(column_name, combiner)
    return v1.feature_column.categorical_column_with_vocabulary_file(
        column_name,
        vocabulary_file,
        vocab_size,
        num_oov_buckets,
        None if num_oov_buckets else default_value,
        dtype,
    )


def sparse_column_with_integerized_feature(
    column_name: str, bucket_size: int, combiner: str = "sum", dtype: Any = tf.int64
) -> Any:
    """Ids as they are."""
    del dtype
    _check_combiner(column_name, combiner)
    return columns.categorical_column_with_identity(column_name, bucket_size)


def weighted_sparse_column(
    sparse_id_column: Any, weight_column_name: str, dtype: Any = tf.float32
) -> Any:
    """Ids with weights of another feature."""
    return columns.weighted_categorical_column(sparse_id_column, weight_column_name, dtype)


def bucketized_column(source_column: Any, boundaries: Sequence[float]) -> Any:
    """Between which boundaries a number lies."""
    return columns.bucketized_column(source_column, list(boundaries))


def crossed_column(
    columns: Sequence[Any],
    hash_bucket_size: int,
    combiner: str = "sum",
    ckpt_to_load_from: Any = None,
    tensor_name_in_ckpt: Any = None,
    hash_key: int | None = None,
) -> Any:
    """Combinations of values, by their hash."""
    _check_combiner("crossed_column", combiner)
    if ckpt_to_load_from is not None or tensor_name_in_ckpt is not None:
        raise ConfigError("crossed_column cannot be given a checkpoint here. Warm-start the model.")
    return tf.feature_column.crossed_column(
        [_crossed(column) for column in columns], hash_bucket_size, hash_key
    )


def _crossed(column: Any) -> Any:
    """Of a hashed column what it hashes, as crossing hashes once more."""
    hashed = hasattr(column, "hash_bucket_size") and hasattr(column, "key")
    return column.key if hashed else column


def one_hot_column(sparse_id_column: Any) -> Any:
    """A one for each id."""
    return columns.indicator_column(sparse_id_column)


def embedding_column(
    sparse_id_column: Any,
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
) -> Any:
    """Rows of a table, whose numbers have at first a spread by how many rows there are."""
    return columns.embedding_column(
        sparse_id_column,
        dimension,
        combiner,
        initializer or _by_rows(sparse_id_column),
        ckpt_to_load_from,
        tensor_name_in_ckpt,
        max_norm,
        trainable,
    )


def shared_embedding_columns(
    sparse_id_columns: Sequence[Any],
    dimension: int,
    combiner: str = "mean",
    shared_embedding_name: str | None = None,
    initializer: Any = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
) -> list[Any]:
    """Rows of one table for several columns."""
    return v1.feature_column.shared_embedding_columns(
        list(sparse_id_columns),
        dimension,
        combiner,
        initializer or _by_rows(sparse_id_columns[0]),
        shared_embedding_name,
        ckpt_to_load_from,
        tensor_name_in_ckpt,
        max_norm,
        trainable,
    )


def _by_rows(column: Any) -> Any:
    return v1.truncated_normal_initializer(0.0, float(column.num_buckets) ** -0.5)


def create_feature_spec_for_parsing(feature_columns: Any) -> dict[str, Any]:
    """What `tf.parse_example` has to be given for these columns."""
    return columns.make_parse_example_spec(list(feature_columns))


def input_from_feature_columns(
    columns_to_tensors: Mapping[Any, Any],
    feature_columns: Any,
    weight_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
    cols_to_outs: Any = None,
) -> tf.Tensor:
    """All columns side by side: [batch, depth]."""
    with v1.variable_scope(scope, "input_from_feature_columns"):
        return column_variables.dense_input(
            dict(columns_to_tensors),
            list(feature_columns),
            weight_collections=weight_collections,
            trainable=trainable,
            cols_to_output_tensors=cols_to_outs,
        )


def weighted_sum_from_feature_columns(
    columns_to_tensors: Mapping[Any, Any],
    feature_columns: Any,
    num_outputs: int,
    weight_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> tuple[tf.Tensor, dict[Any, Any], Any]:
    """A linear model of columns: its sums, its variables by column, and its bias."""
    made: dict[Any, Any] = {}
    with v1.variable_scope(scope, "weighted_sum_from_feature_columns"):
        sums = column_variables.weighted_sum(
            dict(columns_to_tensors),
            list(feature_columns),
            num_outputs,
            made,
            weight_collections=weight_collections,
            trainable=trainable,
        )
    (bias,) = made.pop("bias")
    return sums, made, bias


def parse_feature_columns_from_examples(
    serialized: Any, feature_columns: Any, name: str | None = None, example_names: Any = None
) -> dict[str, Any]:
    """The features that columns read, out of serialized `tf.Example`s."""
    spec = create_feature_spec_for_parsing(feature_columns)
    return tf.io.parse_example(serialized, spec, example_names, name)


def _check_combiner(name: str, combiner: str) -> None:
    if combiner != "sum":
        raise ConfigError(
            f"The column {name!r} was given combiner={combiner!r}. A column is combined by 'sum' "
            "here; embedding_column takes another one, and LinearClassifier(sparse_combiner=...)."
        )
