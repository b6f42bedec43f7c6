"""How to parse the tf.Examples that a set of columns reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import tensorflow as tf

from estimand.core.errors import FeatureColumnError
from estimand.core.tf_private import feature_columns as fc
from estimand.features import checks
from estimand.features.quiet import no_deprecation_notices, without_notice

Spec = dict[str, Any]


def make_parse_example_spec(feature_columns: Iterable[Any]) -> Spec:
    """The dict for `tf.io.parse_example` that yields the features of these columns.

    Args:
      feature_columns: the columns that the model reads.

    >>> import estimand as est
    >>> column = est.feature_column.numeric_column("price", shape=(2,))
    >>> make_parse_example_spec([column])["price"].shape
    (2,)
    """
    result: Spec = {}
    for column in feature_columns:
        if not isinstance(column, fc.AnyColumn):
            raise FeatureColumnError(
                "All feature_columns must be FeatureColumn instances. "
                f"Given: {column!r} (type {type(column).__name__})."
            )
        for key, value in _spec_of(column).items():
            if key in result and result[key] != value:
                raise FeatureColumnError(
                    "feature_columns contain different parse_spec for key "
                    f"{key}. Given {value} and {result[key]}"
                )
            result[key] = value
    return result


def _spec_of(column: Any) -> Spec:
    if isinstance(column, fc.V1SharedEmbeddingColumn):
        return _spec_of(column.categorical_column)
    if hasattr(column, "parse_example_spec"):
        return column.parse_example_spec
    with no_deprecation_notices():
        return column._parse_example_spec


def classifier_parse_example_spec(
    feature_columns: Iterable[Any],
    label_key: str,
    label_dtype: tf.DType = tf.int64,
    label_default: Any = None,
    weight_column: Any = None,
) -> Spec:
    """The parse spec of the columns, a label of shape (1,) and the weight.

    Args:
      feature_columns: the columns that the model reads.
      label_key: name of the label's feature.
      label_dtype: its type.
      label_default: its value where it is missing; None: an error.
      weight_column: name of the feature, or numeric column, that weighs examples.

    >>> import estimand as est
    >>> column = est.feature_column.numeric_column("x")
    >>> sorted(est.classifier_parse_example_spec([column], "label", weight_column="w"))
    ['label', 'w', 'x']
    """
    label = tf.io.FixedLenFeature((1,), label_dtype, label_default)
    return _with_label(feature_columns, label_key, label, weight_column)


def regressor_parse_example_spec(
    feature_columns: Iterable[Any],
    label_key: str,
    label_dtype: tf.DType = tf.float32,
    label_default: Any = None,
    label_dimension: int = 1,
    weight_column: Any = None,
) -> Spec:
    """The parse spec of the columns, a label of shape (label_dimension,) and the weight.

    Args:
      feature_columns: the columns that the model reads.
      label_key: name of the label's feature.
      label_dtype: its type.
      label_default: its value where it is missing; None: an error.
      label_dimension: how many numbers a label has.
      weight_column: name of the feature, or numeric column, that weighs examples.

    >>> import estimand as est
    >>> age = est.feature_column.numeric_column("age")
    >>> sorted(est.regressor_parse_example_spec([age], label_key="income"))
    ['age', 'income']
    """
    label = tf.io.FixedLenFeature((label_dimension,), label_dtype, label_default)
    return _with_label(feature_columns, label_key, label, weight_column)


def _with_label(
    feature_columns: Iterable[Any], label_key: str, label: Any, weight_column: Any
) -> Spec:
    spec = make_parse_example_spec(feature_columns)
    if label_key in spec:
        raise FeatureColumnError(
            "label should not be used as feature. "
            f"label_key: {label_key}, features: {list(spec)}. Take it out of feature_columns."
        )
    spec[label_key] = label
    if weight_column is None:
        return spec
    if isinstance(weight_column, str):
        weight_column = without_notice(tf.feature_column.numeric_column)(weight_column)
    if not isinstance(weight_column, fc.NumericColumn):
        raise FeatureColumnError(
            "weight_column should be an instance of tf.feature_column.numeric_column. "
            f"Given type: {type(weight_column)} value: {weight_column}. "
            "Pass the feature's key or est.feature_column.numeric_column(key)."
        )
    if weight_column.key in spec:
        raise FeatureColumnError(
            "weight_column should not be used as feature. "
            f"weight_column: {weight_column.key}, features: {list(spec)}."
        )
    spec.update(weight_column.parse_example_spec)
    return spec


def feature_keys(feature_columns: Any) -> list[str]:
    """The keys of all features that these columns read, sorted.

    >>> import estimand as est
    >>> feature_keys(est.feature_column.crossed_column(["b", "a"], 10))
    ['a', 'b']
    """
    columns = checks.column_list(feature_columns)
    return sorted({key for column in columns for key in checks.keys_of(column)})
