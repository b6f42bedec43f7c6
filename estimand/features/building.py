"""From one column and a batch to its tensor: the choice between the dense and the sparse way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from estimand.core.tf_private import feature_columns as fc
from estimand.features import checks
from estimand.features.cache import FeatureTensors
from estimand.features.dense_ids import DenseIds, dense_ids
from estimand.features.lookup import dense_lookup, sparse_lookup, sum_of_lookups
from estimand.features.path import fast_path_enabled
from estimand.features.state import is_partitioned

_EMBEDDINGS = (fc.EmbeddingColumn, fc.SharedEmbeddingColumn, fc.V1SharedEmbeddingColumn)


class ColumnTensors:
    """What the columns make of one batch; `state` holds their variables and tables."""

    def __init__(self, features: Mapping[str, Any], state: Any) -> None:
        self.cache = FeatureTensors(checks.features_mapping(features))
        self.state = state
        self._fast = fast_path_enabled()

    def dense(self, column: Any) -> tf.Tensor:
        """The column as [batch, number of elements]."""
        checks.features_fit(column, self.cache.features)
        if isinstance(column, _EMBEDDINGS):
            tensor = self._embedding(column)
        elif isinstance(column, fc.IndicatorColumn):
            tensor = self._indicator(column)
        else:
            tensor = self._as_it_is(column)
        return checks.flattened(column, tensor, self.cache.features)

    def linear_part(self, column: Any, weights: Any, combiner: str) -> LinearPart:
        """The column's part of a linear model, or the ids that `linear_total` looks up."""
        checks.features_fit(column, self.cache.features)
        if not isinstance(column, fc.AnyCategoricalColumn):
            return LinearPart(column, weights, value=tf.matmul(self.dense(column), weights))
        ids = self._ids(column, weights)
        if ids is not None:
            return LinearPart(column, weights, ids=ids)
        pair = self._sparse(column)
        flat = [
            None if t is None else tf.sparse.reshape(t, [tf.shape(t)[0], -1])
            for t in (pair.id_tensor, pair.weight_tensor)
        ]
        value = sparse_lookup(weights, flat, combiner, name="weighted_sum")
        return LinearPart(column, weights, value=value)

    def sequence(self, column: Any) -> tuple[tf.Tensor, tf.Tensor]:
        """A sequence column as [batch, time, number of elements], and the lengths."""
        checks.features_fit(column, self.cache.features)
        if isinstance(column, _EMBEDDINGS):
            pair = self._sparse(column.categorical_column)
            tensor = self._sparse_embedding(column, pair)
            lengths = _sequence_lengths(pair.id_tensor)
        else:
            if hasattr(column, "create_state"):
                column.create_state(self.state)
            tensor, lengths = column.get_sequence_dense_tensor(self.cache, self.state)
        shape = tf.shape(tensor)
        elements = checks.column_shape(column).num_elements()
        return tf.reshape(tensor, [shape[0], shape[1], elements]), lengths

    def _embedding(self, column: Any) -> tf.Tensor:
        if column.use_safe_embedding_lookup:
            ids = self._ids(column.categorical_column, self.state.embedding_table(column))
            if ids is not None:
                return dense_lookup(self.state.embedding_table(column), ids, column.max_norm)
        return self._sparse_embedding(column, self._sparse(column.categorical_column))

    def _sparse_embedding(self, column: Any, pair: Any) -> tf.Tensor:
        return sparse_lookup(
            self.state.embedding_table(column),
            pair,
            column.combiner,
            column.max_norm,
            safe=column.use_safe_embedding_lookup,
        )

    def _indicator(self, column: Any) -> tf.Tensor:
        ids = self._ids(column.categorical_column)
        if ids is None:
            return self._as_it_is(column)
        return tf.one_hot(ids.marked, column.categorical_column.num_buckets)

    def _as_it_is(self, column: Any) -> tf.Tensor:
        """A column that brings its own computation: numeric, bucketized, users' own."""
        if not hasattr(column, "get_dense_tensor"):
            return column._get_dense_tensor(self.cache)
        column.create_state(self.state)
        return column.get_dense_tensor(self.cache, self.state)

    def _sparse(self, column: Any) -> Any:
        if hasattr(column, "get_sparse_tensors"):
            return column.get_sparse_tensors(self.cache, self.state)
        return column._get_sparse_tensors(self.cache)

    def _ids(self, column: Any, table: Any = None) -> DenseIds | None:
        if not self._fast or is_partitioned(table):
            return None
        return dense_ids(column, self.cache, self.state)


@dataclass(frozen=True)
class LinearPart:
    """What one column adds to a linear model: a tensor [batch, units], or ids yet to look up."""

    column: Any
    weights: Any
    value: tf.Tensor | None = None
    ids: DenseIds | None = None


def linear_total(parts: Sequence[LinearPart]) -> tf.Tensor:
    """The sum of all parts; the lookups by dense ids are done together."""
    tensors = [part.value if part.ids is None else part.ids.ids for part in parts]
    checks.same_batch_size(tensors, [part.column for part in parts])
    terms = [part.value for part in parts if part.ids is None]
    dense = [(part.weights, part.ids) for part in parts if part.ids is not None]
    if dense:
        terms.append(sum_of_lookups(*zip(*dense, strict=True)))
    return tf.add_n(terms, name="weighted_sum_no_bias")


def _sequence_lengths(ids: tf.SparseTensor) -> tf.Tensor:
    """Number of time steps of each example: one more than its last index in time."""
    rows, steps = ids.indices[:, 0], ids.indices[:, 1] + 1
    count = tf.cast(ids.dense_shape[0], tf.int64)
    return tf.maximum(tf.math.unsorted_segment_max(steps, rows, count), 0)
