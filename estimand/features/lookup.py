"""Rows of a table by the ids of a column: the dense way, and TensorFlow's sparse way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimand.features.dense_ids import DenseIds


def dense_lookup(table: Any, ids: DenseIds, max_norm: float | None = None) -> tf.Tensor:
    """One row per example, zeros where there is none. Gradients are IndexedSlices."""
    if max_norm is None:
        rows = tf.gather(table, ids.row)
    else:
        rows = tf.nn.embedding_lookup(table, ids.row, max_norm=max_norm)
    return rows if ids.found is None else _found_rows(ids.found, rows)


def sum_of_lookups(tables: Sequence[Any], ids: Sequence[DenseIds]) -> tf.Tensor:
    """The rows of several columns, each in its own table, added up: [batch, width].

    What hides the rows of missing values is done for all columns at once: small ops cost more
    here than arithmetic.
    """
    pairs = list(zip(tables, ids, strict=True))
    some_missing = [pair for pair in pairs if not pair[1].always_found]
    if len(some_missing) < 2:
        return _sum([dense_lookup(*pair) for pair in pairs])
    terms = [dense_lookup(*pair) for pair in pairs if pair[1].always_found]
    marked = tf.stack([column_ids.marked for _, column_ids in some_missing])
    rows = tf.unstack(tf.maximum(marked, 0), num=len(some_missing))
    gathered = [tf.gather(table, row) for (table, _), row in zip(some_missing, rows, strict=True)]
    return _sum([*terms, _sum_of_found_rows(marked >= 0, gathered)])


def _sum(terms: list[tf.Tensor]) -> tf.Tensor:
    return terms[0] if len(terms) == 1 else tf.add_n(terms)


# Rows that are not found are nothing, also in the place of NaN. The gradient of `tf.where` itself
# would first work out how its arguments were broadcast, in a dozen ops for each column.


def _found_rows(is_known: tf.Tensor, rows: tf.Tensor) -> tf.Tensor:
    @tf.custom_gradient
    def choose(values: tf.Tensor) -> Any:
        return _whole_rows(is_known, values), lambda upstream: _whole_rows(is_known, upstream)

    return choose(rows)


def _whole_rows(chosen: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """The rows that are chosen, one by one: half as dear as to say it of each of their numbers."""
    return tf.compat.v1.where(chosen, values, tf.zeros_like(values))


def _sum_of_found_rows(is_known: tf.Tensor, rows: list[tf.Tensor]) -> tf.Tensor:
    """The sum over columns of the rows that are found ([columns, batch])."""
    chosen = tf.expand_dims(is_known, -1)

    @tf.custom_gradient
    def add_up(*values: tf.Tensor) -> Any:
        def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
            return tf.unstack(_where(chosen, upstream[None]), num=len(values))

        return tf.reduce_sum(_where(chosen, tf.stack(values)), 0), gradient

    return add_up(*rows)


def _where(chosen: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    return tf.where(chosen, values, tf.zeros([], values.dtype))


def sparse_lookup(
    table: Any,
    ids_and_weights: Any,
    combiner: str,
    max_norm: float | None = None,
    *,
    safe: bool = True,
    name: str | None = None,
) -> tf.Tensor:
    """What TensorFlow's own columns do."""
    ids, factors = ids_and_weights
    rank = tf.compat.dimension_value(ids.dense_shape.shape[0])
    if not safe and rank is not None and rank <= 2:
        return tf.nn.embedding_lookup_sparse(
            table, ids, factors, combiner=combiner, max_norm=max_norm, name=name
        )
    return tf.compat.v1.nn.safe_embedding_lookup_sparse(
        table, ids, factors, combiner=combiner, max_norm=max_norm, name=name
    )
