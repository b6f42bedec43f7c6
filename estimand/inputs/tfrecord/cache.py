"""Parsed records kept in memory: batches are then rows gathered from tensors."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.core.errors import InputError
from estimand.inputs.memory.rows import RowsInMemory, note_rows
from estimand.inputs.order import batches_of_rows
from estimand.inputs.permutation import draw_seed, rows_in_order


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
    _check(batches)
    parts = list(map(_leaves, batches))
    if not parts:
        raise InputError("tfrecord_input_fn: there are no records to keep in memory.")
    kept = [tf.concat(leaves, axis=0) for leaves in zip(*parts, strict=True)]
    rows = int(kept[0].shape[0] if isinstance(kept[0], tf.Tensor) else kept[0].nrows())
    row_at = rows_in_order(rows, draw_seed() if shuffle else None)
    total = None if epochs is None else rows * epochs
    if drop_remainder and total is not None:
        total -= total % batch_size
    count = None if total is None else -(-total // batch_size)

    @tf.autograph.experimental.do_not_convert
    def take(number: tf.Tensor) -> Any:
        end = (number + 1) * batch_size
        if total is not None and not drop_remainder:
            end = tf.minimum(end, total)
        positions = tf.range(number * batch_size, end)
        if drop_remainder or total is None:
            positions.set_shape([batch_size])
        row = row_at(positions)
        return tf.nest.pack_sequence_as(
            spec, [_rows(part, row, kind) for part, kind in zip(kept, kinds, strict=True)]
        )

    numbers = tf.data.Dataset.counter() if count is None else tf.data.Dataset.range(count)
    dataset = batches_of_rows(numbers.map(take).prefetch(2), batch_size)
    if not all(isinstance(part, tf.Tensor) for part in kept):
        return dataset
    tensors = tf.nest.pack_sequence_as(spec, kept)
    in_order = not shuffle and epochs == 1
    return note_rows(dataset, RowsInMemory(tensors, row_at, batch_size, total, in_order))


def _leaves(batch: Any) -> list[Any]:
    return [
        tf.RaggedTensor.from_sparse(leaf) if isinstance(leaf, tf.SparseTensor) else leaf
        for leaf in tf.nest.flatten(batch)
    ]


def _check(batches: tf.data.Dataset) -> None:
    features = batches.element_spec
    features = features[0] if isinstance(features, tuple) else features
    for name, kind in features.items():
        dense = isinstance(kind, tf.TensorSpec)
        if dense != kind.shape[1:].is_fully_defined() and not isinstance(kind, tf.RaggedTensorSpec):
            raise InputError(
                f"tfrecord_input_fn: cache=True cannot keep the feature {name!r}, which is padded "
                "or sparse with a size. Use FixedLenFeature, VarLenFeature or RaggedFeature, or "
                "cache=False."
            )


def _rows(part: Any, row: tf.Tensor, kind: Any) -> Any:
    taken = tf.gather(part, row)
    return taken.to_sparse() if isinstance(kind, tf.SparseTensorSpec) else taken
