"""Ids of single-valued categorical features as plain [batch] tensors.

TensorFlow's columns turn every categorical feature into a SparseTensor, and their embedding
lookup then prunes, fills, uniquifies and sums it: some thirty ops per column. A dense feature
with one value per example needs none of that: its ids come from the same hash, the same
vocabulary table or the same buckets, and one gather looks them up. Features of any other form
(several values, sparse, weighted) get None here and go TensorFlow's way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import tensorflow as tf

from estimand.core.tf_private import feature_columns as fc
from estimand.features import checks
from estimand.features.cache import FeatureTensors, ValuesOnly

_MEMO = "estimand/dense_ids_of_features"
_KEYED = (
    fc.HashedCategoricalColumn,
    fc.IdentityCategoricalColumn,
    fc.VocabularyFileCategoricalColumn,
    fc.VocabularyListCategoricalColumn,
)


@dataclass(frozen=True)
class DenseIds:
    """One id per example; negative ones are in no bucket.

    `given` tells which examples have a value at all (None: every one has). It is left out of
    `marked` where a missing value has a negative id anyway.
    """

    ids: tf.Tensor
    given: tf.Tensor | None = None
    never_negative: bool = False
    missing_is_negative: bool = False

    @cached_property
    def marked(self) -> tf.Tensor:
        """The ids, negative where there is nothing to look up."""
        if self.given is None or self.missing_is_negative:
            return self.ids
        return tf.where(self.given, self.ids, tf.constant(-1, self.ids.dtype))

    @property
    def always_found(self) -> bool:
        """Whether every example has a row."""
        return self.given is None and self.never_negative

    @cached_property
    def row(self) -> tf.Tensor:
        """The row to look up; 0 where there is none, as TensorFlow's safe lookup has it."""
        if self.always_found:
            return self.ids
        if self.never_negative:
            return tf.where(self.given, self.ids, tf.zeros([], self.ids.dtype))
        return tf.maximum(self.marked, 0)

    @cached_property
    def found(self) -> tf.Tensor | None:
        """Which examples have a row; None if all do."""
        return self.given if self.never_negative else self.marked >= 0


def dense_ids(column: Any, cache: FeatureTensors, state: Any) -> DenseIds | None:
    """The ids of `column` if its features are dense with one value each, else None."""
    if column in cache.features:
        return None  # the caller transformed it
    leaves = [cache.features.get(key) for key in checks.keys_of(column)]
    memo = _memo(cache)
    place = (column, *(id(leaf) for leaf in leaves))
    if place not in memo:
        # The tensors are kept with it, so that their identities stay theirs.
        memo[place] = (_compute(column, cache, state), leaves)
    return memo[place][0]


def _memo(cache: FeatureTensors) -> dict[Any, Any]:
    """Where ids are remembered: by graph, so that the wide and the deep part share them."""
    graph = tf.compat.v1.get_default_graph()
    if tf.executing_eagerly() or not tf.compat.v1.control_flow_v2_enabled():
        # An old-style conditional is part of its graph: what is made inside must stay inside.
        return cache.ids
    memo = graph.get_collection_ref(_MEMO)
    if not memo:
        memo.append({})
    return memo[0]


def _compute(column: Any, cache: FeatureTensors, state: Any) -> DenseIds | None:
    if isinstance(column, _KEYED):
        return _keyed(column, cache, state)
    if isinstance(column, fc.BucketizedColumn):
        return _bucketized(column, cache, state)
    if isinstance(column, fc.CrossedColumn):
        return _crossed(column, cache, state)
    return None


def _keyed(column: Any, cache: FeatureTensors, state: Any) -> DenseIds | None:
    values = cache.one_per_example(column.key)
    if values is None:
        return None
    ids = column.transform_feature(ValuesOnly(column.key, values), state).values
    return DenseIds(
        ids,
        given=tf.not_equal(values, _missing_value(values.dtype)),
        never_negative=isinstance(column, fc.HashedCategoricalColumn),
        missing_is_negative=_missing_is_negative(column),
    )


def _missing_value(dtype: tf.DType) -> Any:
    return "" if dtype == tf.string else tf.cast(-1, dtype)


def _missing_is_negative(column: Any) -> bool:
    """Whether the mark of a missing value ('' or -1) gets a negative id by itself."""
    if isinstance(column, fc.IdentityCategoricalColumn):
        return column.default_value is None
    if isinstance(column, fc.VocabularyListCategoricalColumn):
        unknown_is_negative = not column.num_oov_buckets and column.default_value == -1
        return unknown_is_negative and not {"", b"", -1} & set(column.vocabulary_list)
    return False


def _bucketized(column: Any, cache: FeatureTensors, state: Any) -> DenseIds | None:
    if tuple(column.source_column.shape) != (1,):
        return None
    buckets = cache.get(column, state)
    if buckets.shape.rank != 2 or tf.compat.dimension_value(buckets.shape[1]) != 1:
        return None
    return DenseIds(tf.cast(tf.squeeze(buckets, axis=1), tf.int64), never_negative=True)


def _crossed(column: Any, cache: FeatureTensors, state: Any) -> DenseIds | None:
    """The cross of single values. Columns come before plain features, as in the sparse cross."""
    from_columns, plain, given = [], [], []
    for key in _leaves(column):
        if isinstance(key, str):
            values = cache.one_per_example(key)
            if values is None:
                return None
            plain.append(values)  # '' is a value like any other here
        else:
            part = dense_ids(key, cache, state)
            if part is None:
                return None
            from_columns.append(part.ids)
            if part.given is not None:
                given.append(part.given)
    inputs = [tf.expand_dims(values, 1) for values in (*from_columns, *plain)]
    cross = tf.sparse.cross_hashed(inputs, column.hash_bucket_size, column.hash_key)
    ids = cross.values  # one per example, in order: every input has one
    ids.set_shape(inputs[0].shape[:1])
    all_given = None
    for part in given:
        all_given = part if all_given is None else tf.logical_and(all_given, part)
    return DenseIds(ids, given=all_given, never_negative=True)


def _leaves(column: Any) -> list[Any]:
    leaves: list[Any] = []
    for key in column.keys:
        leaves.extend(_leaves(key) if isinstance(key, fc.CrossedColumn) else [key])
    return leaves
