"""`tf.contrib.sparsemax`: a softmax with zeros in it (Martins and Astudillo 2016)."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


def sparsemax(logits: Any, name: str | None = None) -> tf.Tensor:
    """The probabilities, [batch, classes], that are nearest to the logits.

    >>> sparsemax([[1.0, 0.5, -1.0]]).numpy().tolist()
    [[0.75, 0.25, 0.0]]
    """
    with v1.name_scope(name, "sparsemax", [logits]):
        logits = tf.convert_to_tensor(logits)
        largest = tf.sort(logits, direction="DESCENDING")
        sums = tf.cumsum(largest, -1)
        places = tf.cast(tf.range(1, tf.shape(logits)[-1] + 1), logits.dtype)
        inside = tf.cast(1 + places * largest > sums, logits.dtype)
        count = tf.reduce_sum(inside, -1, keepdims=True)
        threshold = (tf.reduce_sum(largest * inside, -1, keepdims=True) - 1) / count
        return tf.maximum(logits - threshold, 0)


def sparsemax_loss(logits: Any, sparsemax: Any, labels: Any, name: str | None = None) -> tf.Tensor:
    """The loss of each example, of what `sparsemax` gave."""
    with v1.name_scope(name, "sparsemax_loss", [logits, sparsemax, labels]):
        of = tf.convert_to_tensor(logits)
        # Where a probability is not zero: half the squares of logits less those of the threshold.
        support = sparsemax * (of - 0.5 * sparsemax)
        right = tf.cast(labels, of.dtype) * (0.5 * tf.cast(labels, of.dtype) - of)
        return tf.reduce_sum(support + right, 1)
