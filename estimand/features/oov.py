"""How much of a batch a vocabulary does not know: cheap, for checks before training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from estimand.core.tf_private import feature_columns as fc
from estimand.features import checks
from estimand.features.cache import FeatureTensors, ValuesOnly
from estimand.features.state import LookupTables


class Unknown(NamedTuple):
    """Fractions of a feature's values, between 0 and 1."""

    missing: float
    out_of_vocabulary: float


def out_of_vocabulary(columns: Any, features: Mapping[str, Any]) -> dict[str, Unknown]:
    """Per vocabulary or identity column: which part of the values is missing or unknown.

    Of a dense feature '' and -1 are missing values; of a sparse one, rows without any. `columns`
    is one column or several; those inside embeddings, indicators and crosses are found too. Needs
    a real batch (eager tensors or arrays).

    >>> import estimand as est
    >>> column = est.feature_column.categorical_column_with_vocabulary_list("c", ["a", "b"])
    >>> out_of_vocabulary(column, {"c": ["a", "?", "", "b"]})
    {'c': Unknown(missing=0.25, out_of_vocabulary=0.25)}
    """
    cache = FeatureTensors(checks.features_mapping(features))
    unknown: dict[str, Unknown] = {}
    for column in checks.column_list(columns):
        checks.features_fit(column, features)
        for base, key in checks.base_columns(column):
            if base.name not in unknown and isinstance(base, _COUNTABLE):
                unknown[base.name] = _count(base, key, cache)
    return unknown


_COUNTABLE = (
    fc.IdentityCategoricalColumn,
    fc.VocabularyFileCategoricalColumn,
    fc.VocabularyListCategoricalColumn,
)


def _count(column: Any, key: str, cache: FeatureTensors) -> Unknown:
    value = cache.get(key)
    if isinstance(value, tf.SparseTensor):
        values = value.values
        rows = int(value.dense_shape[0])
        missing = rows - len(set(value.indices[:, 0].numpy().tolist()))
        total = int(values.shape[0]) + missing
    else:
        flat = tf.reshape(value, [-1])
        mark = "" if flat.dtype == tf.string else tf.cast(-1, flat.dtype)
        values = flat[tf.not_equal(flat, mark)]
        total = int(flat.shape[0])
        missing = total - int(values.shape[0])
    if total == 0:
        return Unknown(0.0, 0.0)
    return Unknown(missing / total, _unknown(column, values) / total)


def _unknown(column: Any, values: tf.Tensor) -> int:
    """How many values have no row of their own."""
    if isinstance(column, fc.IdentityCategoricalColumn):
        outside = tf.logical_or(values < 0, tf.cast(values, tf.int64) >= column.num_buckets)
        return int(tf.reduce_sum(tf.cast(outside, tf.int64)))
    # With a default that no known value has, whatever gets it is unknown.
    strict = column._replace(num_oov_buckets=0, default_value=-1)
    ids = strict.transform_feature(ValuesOnly(column.key, values), LookupTables()).values
    return int(tf.reduce_sum(tf.cast(ids < 0, tf.int64)))
