"""The classes behind TensorFlow's feature columns: the functions that make them are public only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensorflow.python.feature_column import feature_column as old
from tensorflow.python.feature_column import feature_column_v2 as new
from tensorflow.python.feature_column import feature_column_v2_types as types
from tensorflow.python.feature_column import sequence_feature_column as sequence

# What a column is can only be told by its class.
AnyColumn = (types.FeatureColumn, old._FeatureColumn)
AnyCategoricalColumn = (new.CategoricalColumn, old._CategoricalColumn)
AnyDenseColumn = (new.DenseColumn, old._DenseColumn)
AnySequenceDenseColumn = (new.SequenceDenseColumn, old._SequenceDenseColumn)
BucketizedColumn = new.BucketizedColumn
CrossedColumn = new.CrossedColumn
EmbeddingColumn = new.EmbeddingColumn
HashedCategoricalColumn = new.HashedCategoricalColumn
IdentityCategoricalColumn = new.IdentityCategoricalColumn
IndicatorColumn = new.IndicatorColumn
NumericColumn = new.NumericColumn
SequenceCategoricalColumn = new.SequenceCategoricalColumn
SequenceNumericColumn = sequence.SequenceNumericColumn
SharedEmbeddingColumn = new.SharedEmbeddingColumn
V1NumericColumn = old._NumericColumn
V1SharedEmbeddingColumn = old._SharedEmbeddingColumn
VocabularyFileCategoricalColumn = new.VocabularyFileCategoricalColumn
VocabularyListCategoricalColumn = new.VocabularyListCategoricalColumn
WeightedCategoricalColumn = new.WeightedCategoricalColumn


def of_version_1(columns: Any) -> list[Any]:
    """Those of the columns that were made by the functions of TensorFlow 1."""
    given = [columns] if isinstance(columns, AnyColumn) else list(columns or ())
    known = [c for c in given if isinstance(c, AnyColumn)]
    return [c for c in known if not isinstance(c, types.FeatureColumn)]


@dataclass(frozen=True)
class SharedTable:
    """What `tf.feature_column.shared_embeddings` knows of the table its columns share."""

    name: str
    shape: tuple[int, int]
    initializer: Any
    trainable: bool
    ckpt_to_load_from: str | None
    tensor_name_in_ckpt: str | None


def shared_table(creator: Any) -> SharedTable:
    """The table of a SharedEmbeddingColumn, without asking the creator for its variable.

    The creator keeps one variable per graph key and makes it in whatever variable scope is open:
    neither fits a model function that is traced once per mode over the same variables.
    """
    return SharedTable(
        name=creator._name,
        shape=(creator._num_buckets, creator._dimension),
        initializer=creator._initializer,
        trainable=creator._trainable,
        ckpt_to_load_from=creator._ckpt_to_load_from,
        tensor_name_in_ckpt=creator._tensor_name_in_ckpt,
    )


def columns_to_config(columns: Any) -> list[Any]:
    """Columns as plain dicts, which `columns_from_config` makes columns of again."""
    from tensorflow.python.feature_column import serialization

    return serialization.serialize_feature_columns(columns)


def columns_from_config(config: Any) -> list[Any]:
    """The columns that `columns_to_config` was given."""
    from tensorflow.python.feature_column import serialization

    return serialization.deserialize_feature_columns(config)
