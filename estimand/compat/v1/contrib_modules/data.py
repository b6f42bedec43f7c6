"""`tf.contrib.data`: the parts that are not in `tf.data.experimental`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf


def batch_and_drop_remainder(batch_size: int) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    """For `dataset.apply(...)`.

    >>> [len(x) for x in tf.data.Dataset.range(5).apply(batch_and_drop_remainder(2))]
    [2, 2]
    """
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def make_saveable_from_iterator(iterator: Any, external_state_policy: str | None = None) -> Any:
    """What a v1 Saver can save of an iterator.

    An Estimator saves the position of its input by itself: adding this to SAVEABLE_OBJECTS in
    an input_fn is harmless and no longer needed.
    """
    return tf.data.experimental.make_saveable_from_iterator(iterator, external_state_policy)


def padded_batch_and_drop_remainder(
    batch_size: int, padded_shapes: Any, padding_values: Any = None
) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    """The same with padding."""
    return lambda dataset: dataset.padded_batch(
        batch_size, padded_shapes, padding_values, drop_remainder=True
    )


def sloppy_interleave(
    map_func: Callable[..., Any], cycle_length: int, block_length: int = 1
) -> Callable[[tf.data.Dataset], tf.data.Dataset]:
    """Elements of several datasets, in the order in which they are ready."""
    return tf.data.experimental.parallel_interleave(
        map_func, cycle_length, block_length, sloppy=True
    )
