"""Rows of a table by the ids of a column: the dense way, and TensorFlow's sparse way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimand.features.dense_ids import DenseIds


def dense_lookup(table: Any, ids: DenseIds, max_norm: float | None = None) -> tf.Tensor:
    """One row per example, zeros where there is none. Gradients are IndexedSlices."""
    if max_norm is None:
        return sum_of_lookups([table], [ids])
    rows = tf.nn.embedding_lookup(table, ids.row, max_norm=max_norm)
    return rows if ids.found is None else _sum_of_found(ids.found[None], [rows])


def sum_of_lookups(tables: Sequence[Any], ids: Sequence[DenseIds]) -> tf.Tensor:
    """The rows of several columns, each in its own table, added up: [batch, width].

    What hides the rows of missing values is done for all columns at once: small ops cost more
    here than arithmetic.
    """
    terms = []
    some_missing = []
    for table, column_ids in zip(tables, ids, strict=True):
        if column_ids.always_found:
            terms.append(tf.gather(table, column_ids.ids))
        else:
            some_missing.append((table, column_ids))
    if some_missing:
        marked = tf.stack([column_ids.marked for _, column_ids in some_missing])
        rows = tf.unstack(tf.maximum(marked, 0), num=len(some_missing))
        gathered = [
            tf.gather(table, row) for (table, _), row in zip(some_missing, rows, strict=True)
        ]
        terms.append(_sum_of_found(marked >= 0, gathered))
    return terms[0] if len(terms) == 1 else tf.add_n(terms)


def _sum_of_found(found: tf.Tensor, rows: list[tf.Tensor]) -> tf.Tensor:
    """The sum over columns of those rows that are found ([columns, batch]).

    Not found is nothing, also in the place of NaN. The gradient of `tf.where` would first work
    out how its arguments were broadcast, in a dozen ops.
    """
    chosen = tf.expand_dims(found, -1)

    @tf.custom_gradient
    def add_up(*values: tf.Tensor) -> Any:
        def gradient(upstream: tf.Tensor) -> list[tf.Tensor]:
            spread = tf.where(chosen, upstream[None], tf.zeros([], upstream.dtype))
            return tf.unstack(spread, num=len(values))

        kept = tf.where(chosen, tf.stack(values), tf.zeros([], values[0].dtype))
        total = tf.squeeze(kept, 0) if len(values) == 1 else tf.reduce_sum(kept, 0)
        return total, gradient

    return add_up(*rows)


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
    rank = ids.dense_shape.shape[0]
    if not safe and rank is not None and rank <= 2:
        return tf.nn.embedding_lookup_sparse(
            table, ids, factors, combiner=combiner, max_norm=max_norm, name=name
        )
    return tf.compat.v1.nn.safe_embedding_lookup_sparse(
        table, ids, factors, combiner=combiner, max_norm=max_norm, name=name
    )
