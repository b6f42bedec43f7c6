"""Rows of an in-memory Dataset, taken a batch at a time.

`Dataset.from_tensor_slices(arrays).batch(1024)` moves each row by itself, which for small rows
costs more than the model does. The same batches are slices of the arrays.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.core import tf_private

# Below this a slice, which is a function call, costs more than the rows by themselves.
_SMALLEST_BATCH = 128


def in_blocks(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """The same batches as `dataset`, in the same order, sliced where that can be done.

    >>> rows = tf.data.Dataset.from_tensor_slices({"x": list(range(300))}).batch(256)
    >>> [int(batch["x"][-1]) for batch in in_blocks(rows)]
    [255, 299]
    """
    behind = tf_private.prefetched(dataset)
    in_order = tf_private.rows_in_order(dataset if behind is None else behind)
    if in_order is None:
        return dataset
    tensors, size, drop_remainder = in_order
    if size < _SMALLEST_BATCH:
        return dataset
    rows = tf.compat.dimension_value(tf.nest.flatten(tensors)[0].shape[0])
    last = rows - rows % size if drop_remainder else rows

    @tf.autograph.experimental.do_not_convert
    def batch(start: tf.Tensor) -> Any:
        def rows_of(tensor: tf.Tensor, spec: tf.TensorSpec) -> tf.Tensor:
            return tf.ensure_shape(tensor[start : start + size], spec.shape)

        return tf.nest.map_structure(rows_of, tensors, dataset.element_spec)

    sliced = tf.data.Dataset.range(0, last, size).map(batch)
    return sliced.with_options(dataset.options())
