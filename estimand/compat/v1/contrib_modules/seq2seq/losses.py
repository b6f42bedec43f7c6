"""`tf.contrib.seq2seq`: the loss of sequences, and batches for beams."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

v1 = tf.compat.v1


def sequence_loss(
    logits: Any,
    targets: Any,
    weights: Any,
    average_across_timesteps: bool = True,
    average_across_batch: bool = True,
    softmax_loss_function: Any = None,
    name: str | None = None,
) -> tf.Tensor:
    """The weighted cross entropy of sequences: [batch, time, classes] and [batch, time]."""
    with v1.name_scope(name, "sequence_loss", [logits, targets, weights]):
        of = softmax_loss_function or tf.nn.sparse_softmax_cross_entropy_with_logits
        losses = of(labels=targets, logits=logits) * weights
        if average_across_timesteps and average_across_batch:
            return tf.reduce_sum(losses) / (tf.reduce_sum(weights) + 1e-12)
        if average_across_timesteps:
            return tf.reduce_sum(losses, 1) / (tf.reduce_sum(weights, 1) + 1e-12)
        if average_across_batch:
            return tf.reduce_sum(losses, 0) / (tf.reduce_sum(weights, 0) + 1e-12)
        return losses


def tile_batch(t: Any, multiplier: int, name: str | None = None) -> Any:
    """Each element of a batch so many times."""
    with v1.name_scope(name, "tile_batch"):
        return tf.nest.map_structure(lambda x: tf.repeat(x, multiplier, axis=0), t)
