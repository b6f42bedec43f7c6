"""`tf.contrib.losses.metric_learning`: what is alike shall be near."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def pairwise_distance(feature: Any, squared: bool = False) -> tf.Tensor:
    """Between all rows; zero from each to itself."""
    feature = tf.convert_to_tensor(feature)
    lengths = tf.reduce_sum(tf.square(feature), 1, keepdims=True)
    squares = lengths + tf.transpose(lengths) - 2.0 * tf.matmul(feature, feature, transpose_b=True)
    squares = tf.maximum(squares, 0.0)
    there = tf.cast(squares > 0, squares.dtype) * (1 - tf.eye(tf.shape(squares)[0]))
    if squared:
        return squares * there
    # The root has no gradient at zero.
    return tf.sqrt(squares + (1 - there) * 1e-16) * there


def contrastive_loss(
    labels: Any, embeddings_anchor: Any, embeddings_positive: Any, margin: float = 1.0
) -> tf.Tensor:
    """Pairs with label 1 shall be near, others farther than `margin` (Hadsell et al. 2006)."""
    difference = tf.square(embeddings_anchor - embeddings_positive)
    distances = tf.sqrt(tf.reduce_sum(difference, 1))
    labels = tf.cast(labels, distances.dtype)
    apart = tf.square(tf.maximum(margin - distances, 0.0))
    return tf.reduce_mean(labels * tf.square(distances) + (1.0 - labels) * apart)


def triplet_semihard_loss(labels: Any, embeddings: Any, margin: float = 1.0) -> tf.Tensor:
    """Of each pair with one label, and the nearest other that is farther (Schroff et al. 2015).

    Where no other is farther than the pair, it is the farthest of the others.
    """
    labels = tf.reshape(labels, [-1, 1])
    distances = pairwise_distance(embeddings, squared=True)
    same = tf.equal(labels, tf.transpose(labels))
    other = tf.cast(~same, distances.dtype)
    # [anchor, positive, negative]
    gaps = distances[:, tf.newaxis, :] - distances[:, :, tf.newaxis]
    farther = (gaps > 0) & ~same[:, tf.newaxis, :]
    negatives = tf.broadcast_to(distances[:, tf.newaxis, :], tf.shape(gaps))
    nearest = tf.reduce_min(tf.where(farther, negatives, negatives.dtype.max), 2)
    farthest = tf.reduce_max(distances * other, 1, keepdims=True)
    chosen = tf.where(tf.reduce_any(farther, 2), nearest, farthest)
    pairs = tf.cast(same, distances.dtype) - tf.eye(tf.shape(distances)[0])
    losses = tf.maximum((margin + distances - chosen) * pairs, 0.0)
    return tf.math.divide(tf.reduce_sum(losses), tf.reduce_sum(pairs))


def npairs_loss(
    labels: Any, embeddings_anchor: Any, embeddings_positive: Any, reg_lambda: float = 0.002
) -> tf.Tensor:
    """Each anchor shall be like the positives of its label (Sohn 2016)."""
    lengths = [tf.reduce_sum(tf.square(e), 1) for e in (embeddings_anchor, embeddings_positive)]
    penalty = 0.25 * reg_lambda * sum(tf.reduce_mean(length) for length in lengths)
    likeness = tf.matmul(embeddings_anchor, embeddings_positive, transpose_b=True)
    labels = tf.reshape(labels, [-1, 1])
    same = tf.cast(tf.equal(labels, tf.transpose(labels)), likeness.dtype)
    shares = same / tf.reduce_sum(same, 1, keepdims=True)
    entropy = tf.nn.softmax_cross_entropy_with_logits(labels=shares, logits=likeness)
    return tf.reduce_mean(entropy) + penalty
