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
