"""Wrong columns and features that do not fit them: one sentence each, before anything is built."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import tensorflow as tf

from estimand.core.errors import FeatureColumnError
from estimand.core.names import did_you_mean
from estimand.core.tf_private import feature_columns as fc

_SHOWN = 20


def column_list(feature_columns: Any) -> list[Any]:
    """The columns as a list: each is one, and no two have the same name."""
    if isinstance(feature_columns, fc.AnyColumn):
        feature_columns = [feature_columns]
    if isinstance(feature_columns, Mapping):
        raise FeatureColumnError(
            "Expected feature_columns to be iterable, found dict. "
            f"Pass its values, list(columns.values()); its keys are {list(feature_columns)}."
        )
    if isinstance(feature_columns, str) or not isinstance(feature_columns, Iterable):
        raise FeatureColumnError(
            f"feature_columns must be a list of feature columns. Given: {feature_columns!r}. "
            "Make one with est.feature_column.numeric_column(...) or the like."
        )
    columns = list(feature_columns)
    if not columns:
        raise FeatureColumnError("feature_columns must not be empty.")
    by_name: dict[str, Any] = {}
    for column in columns:
        if not isinstance(column, fc.AnyColumn):
            raise FeatureColumnError(
                "Items of feature_columns must be a FeatureColumn. "
                f"Given (type {type(column)}): {column!r}. "
                "Make one with est.feature_column.numeric_column(...) or the like."
            )
        if column.name in by_name:
            raise FeatureColumnError(
                f"Duplicate feature column name found for columns: {column} and "
                f"{by_name[column.name]}. This usually means that these columns refer to same "
                "base feature. Drop one of them, or give the feature a second key."
            )
        by_name[column.name] = column
    return columns


def dense_columns(feature_columns: Any) -> list[Any]:
    """Columns that an input layer can concatenate."""
    columns = column_list(feature_columns)
    for column in columns:
        if isinstance(column, fc.SequenceNumericColumn) or _is_sequence(column):
            raise FeatureColumnError(
                f"Column {column.name!r} is a sequence column; an input layer takes one row per "
                "example. Use sequence_input_layer or SequenceFeatures for it."
            )
        if not isinstance(column, fc.AnyDenseColumn):
            raise FeatureColumnError(
                "Items of feature_columns must be a _DenseColumn. You can wrap a categorical "
                f"column with an embedding_column or indicator_column. Given: {column}"
            )
    return columns


def linear_columns(feature_columns: Any) -> list[Any]:
    """Columns that a linear model can weigh."""
    columns = column_list(feature_columns)
    for column in columns:
        if not isinstance(column, fc.AnyDenseColumn + fc.AnyCategoricalColumn):
            raise FeatureColumnError(
                "Items of feature_columns must be either a _DenseColumn or _CategoricalColumn. "
                f"Given: {column}"
            )
    return columns


def sequence_columns(feature_columns: Any) -> list[Any]:
    """Columns that have one value per time step."""
    columns = column_list(feature_columns)
    for column in columns:
        if not isinstance(column, fc.AnySequenceDenseColumn):
            raise FeatureColumnError(
                "All feature_columns must be of type SequenceDenseColumn. You can wrap a "
                "sequence_categorical_column with an embedding_column or indicator_column. "
                f"Given (type {type(column)}): {column}"
            )
        if not isinstance(column, fc.SequenceNumericColumn) and not _is_sequence(column):
            raise FeatureColumnError(
                f"In column {column.name!r}: categorical_column must be of type "
                "SequenceCategoricalColumn to use SequenceFeatures. Make it with one of "
                f"sequence_categorical_column_with_*. Given: {column}"
            )
    return columns


def _is_sequence(column: Any) -> bool:
    inner = getattr(column, "categorical_column", None)
    return isinstance(inner, fc.SequenceCategoricalColumn)


def features_mapping(features: Any) -> Mapping[str, Any]:
    if not isinstance(features, Mapping):
        raise FeatureColumnError(
            "features should be a dictionary of `Tensor`s. "
            f"Given type: {type(features)}. Return ({{'name': tensor, ...}}, labels) from input_fn."
        )
    return features


def base_columns(column: Any) -> Iterator[tuple[Any, str]]:
    """The columns that read a feature themselves, with the key of that feature."""
    parents = getattr(column, "parents", None)
    if parents is None:  # columns of the first generation
        inner = getattr(column, "categorical_column", None)
        parents = [inner] if inner is not None else []
    for parent in parents:
        if isinstance(parent, str):
            yield column, parent
        else:
            yield from base_columns(parent)


def features_fit(column: Any, features: Mapping[Any, Any]) -> None:
    """Every feature that `column` reads is there, with a dtype the column can take."""
    if column in features:  # already transformed, says the caller
        return
    for base, key in base_columns(column):
        if base in features:
            continue
        if key not in features:
            raise FeatureColumnError(
                f"Feature {key} is not in features dictionary. Column {column.name!r} reads the "
                f"feature {key!r}; the features have: {listed(features)}."
                f"{did_you_mean(key, features)}"
            )
        _check_kind(column, base, key, features)


def _check_kind(column: Any, base: Any, key: str, features: Mapping[Any, Any]) -> None:
    value = features[key]
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return
    dtype = tf.as_dtype(dtype)
    sparse = isinstance(value, (tf.SparseTensor, tf.RaggedTensor))
    wanted = None
    if isinstance(base, fc.NumericColumn):
        if sparse:
            raise FeatureColumnError(
                "The corresponding Tensor of numerical column must be a Tensor. SparseTensor is "
                f"not supported. key: {key}. Column {column.name!r} got {describe(value)}; make "
                "it dense with tf.sparse.to_dense, or parse it as a FixedLenFeature."
            )
        if dtype == tf.string:
            wanted = (
                "numbers. Convert it in input_fn, tf.strings.to_number, or take a categorical "
                "column for words"
            )
    elif isinstance(base, fc.IdentityCategoricalColumn):
        if not dtype.is_integer:
            wanted = f"integers. Invalid input, not integer. key: {key} dtype: {dtype}"
    elif isinstance(base, _KEYED) and base.dtype.is_integer != dtype.is_integer:
        wanted = (
            f"{base.dtype.name}. Column dtype and SparseTensors dtype must be compatible. "
            f"key: {key}, column dtype: {base.dtype}, tensor dtype: {dtype}. {_cure(base)}"
        )
    elif isinstance(base, _KEYED) and dtype != tf.string and not dtype.is_integer:
        wanted = f"{base.dtype.name}; input_tensor must be string or integer"
    if wanted is not None:
        raise FeatureColumnError(
            f"Column {column.name!r} reads the feature {key!r}, which is {describe(value)}; "
            f"it takes {wanted}."
        )


def _cure(column: Any) -> str:
    """For words where there should be numbers, or the other way round."""
    if column.dtype.is_integer:
        return "Convert it in input_fn: tf.strings.to_number(feature, tf.int64)"
    if isinstance(column, fc.VocabularyListCategoricalColumn):
        return "Give numbers as the vocabulary, or convert it in input_fn: tf.strings.as_string"
    return "Say dtype=tf.int64 in the column, or convert it in input_fn: tf.strings.as_string"


_KEYED = (
    fc.HashedCategoricalColumn,
    fc.VocabularyFileCategoricalColumn,
    fc.VocabularyListCategoricalColumn,
)


def flattened(column: Any, tensor: tf.Tensor, features: Mapping[Any, Any]) -> tf.Tensor:
    """The dense tensor of a column as [batch, number of elements]."""
    elements = column_shape(column).num_elements()
    shape = tensor.shape
    if shape.rank == 2 and shape[1] == elements:
        return tensor  # as almost always; saves three small ops
    if shape.rank is not None and shape.rank > 0:
        given = shape[1:].num_elements()
        if given is not None and given != elements:
            keys = ", ".join(f"{key!r} ({describe(features.get(key))})" for key in keys_of(column))
            raise FeatureColumnError(
                f"Column {column.name!r} has {elements} values per example by its shape "
                f"{tuple(column_shape(column).as_list())}, but the feature {keys} gives {given}. "
                f"Say so in the column: shape=({given},), or change the feature."
            )
    return tf.reshape(tensor, [tf.shape(tensor)[0], elements])


def keys_of(column: Any) -> list[str]:
    """The keys of the features that a column reads."""
    return list(dict.fromkeys(key for _, key in base_columns(column)))


def column_shape(column: Any) -> tf.TensorShape:
    if isinstance(column, fc.V1SharedEmbeddingColumn):
        return tf.TensorShape([column.dimension])
    shape = getattr(column, "variable_shape", None)
    return shape if shape is not None else column._variable_shape


def same_batch_size(tensors: list[tf.Tensor], columns: list[Any]) -> None:
    """Static batch sizes agree, where they are known."""
    known: tuple[Any, int] | None = None
    for tensor, column in zip(tensors, columns, strict=True):
        size = tf.compat.dimension_value(tensor.shape[0]) if tensor.shape.rank else None
        if size is None:
            continue
        if known is not None and known[1] != size:
            raise FeatureColumnError(
                "Batch size (first dimension) of each feature must be same. Batch size of columns "
                f"({known[0].name}, {column.name}): ({known[1]}, {size})"
            )
        known = known or (column, size)


def describe(value: Any) -> str:
    """dtype and shape of a feature, in a few words."""
    if value is None:
        return "missing"
    kind = "sparse " if isinstance(value, tf.SparseTensor) else ""
    kind = "ragged " if isinstance(value, tf.RaggedTensor) else kind
    dtype = getattr(value, "dtype", None)
    if dtype is None:
        return type(value).__name__
    shape = getattr(value, "shape", None)
    return f"{kind}{getattr(dtype, 'name', dtype)} {'' if shape is None else shape}".rstrip()


def listed(features: Mapping[Any, Any]) -> str:
    """What the features have, for a message."""
    names = [f"{key!r} ({describe(features[key])})" for key in sorted(features, key=str)]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) or "nothing") + more
