"""Parsed records kept in memory: batches are then rows gathered from tensors."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_BATCHES_JOINED = 64


def from_memory(
    batches: tf.data.Dataset,
    shuffle: bool,
    epochs: int | None,
    batch_size: int,
    drop_remainder: bool,
) -> tf.data.Dataset:
    """All rows of `batches`, read now, as a Dataset of the same structure.

    Epochs follow one another without a gap. The position of such a Dataset is one number, so
    that saving it costs nothing, however much is kept.
    """
    spec = batches.element_spec
    kinds = tf.nest.flatten(spec)
    kept = [_joined(parts) for parts in zip(*map(_leaves, batches), strict=True)]
    rows = int(kept[0].shape[0] if isinstance(kept[0], tf.Tensor) else kept[0].nrows())
    last = tf.constant(max(rows - 1, 0), tf.int64)
    seed = tf.random.uniform([2], maxval=2**31 - 1, dtype=tf.int64) if shuffle else None
    total = None if epochs is None else rows * epochs
    count = None if total is None else -(-total // batch_size)
    if drop_remainder and total is not None:
        count = total // batch_size

    @tf.autograph.experimental.do_not_convert
    def take(number: tf.Tensor) -> Any:
        end = (number + 1) * batch_size
        if total is not None and not drop_remainder:
            end = tf.minimum(end, total)
        positions = tf.range(number * batch_size, end)
        if drop_remainder or total is None:
            positions.set_shape([batch_size])
        row = positions % rows
        if seed is not None:
            epoch = tf.reshape(positions // rows, [-1, 1])
            seeds = tf.concat([tf.tile(seed[tf.newaxis], [tf.size(row), 1]), epoch], axis=1)
            row = tf.raw_ops.RandomIndexShuffle(index=row, seed=seeds, max_index=last, rounds=8)
        return tf.nest.pack_sequence_as(
            spec, [_rows(part, row, kind) for part, kind in zip(kept, kinds, strict=True)]
        )

    numbers = tf.data.Dataset.counter() if count is None else tf.data.Dataset.range(count)
    return numbers.map(take).prefetch(2)


def _leaves(batch: Any) -> list[Any]:
    return [
        tf.RaggedTensor.from_sparse(leaf) if isinstance(leaf, tf.SparseTensor) else leaf
        for leaf in tf.nest.flatten(batch)
    ]


def _joined(parts: tuple[Any, ...]) -> Any:
    return tf.concat(parts, axis=0)


def _rows(part: Any, row: tf.Tensor, kind: Any) -> Any:
    taken = tf.gather(part, row)
    return taken.to_sparse() if isinstance(kind, tf.SparseTensorSpec) else taken
