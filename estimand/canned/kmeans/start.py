"""The first centers of k-means: given ones, or points of the first batches."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

RANDOM = "random"
KMEANS_PLUS_PLUS = "kmeans_plus_plus"
_LARGEST_SEED = 2**31 - 1


@dataclass(frozen=True)
class Start:
    """How to choose centers from batches of points, until there are enough of them."""

    how: str | Callable[[tf.Tensor, tf.Tensor], Any]
    seed: int | None
    retries: int

    def choose(self, points: tf.Tensor, missing: tf.Tensor) -> Callable[[], tf.Tensor]:
        """A function that gives up to `missing` of the points.

        What is random is drawn here, outside of it: it will be called in a branch of the graph,
        where the engine does not reach to make random numbers repeatable.
        """
        if callable(self.how):
            function = self.how
            return lambda: tf.cast(function(points, missing), points.dtype)[:missing]
        if self.how == KMEANS_PLUS_PLUS:
            chosen = self._spread_out(points, missing)
        else:
            chosen = self._any(points, missing)
        rows = tf.shape(points)[0]
        return lambda: tf.cond(rows <= missing, lambda: points, chosen)

    def _any(self, points: tf.Tensor, missing: tf.Tensor) -> Callable[[], tf.Tensor]:
        lots = tf.random.uniform([tf.shape(points)[0]], seed=self.seed)
        return lambda: tf.gather(points, tf.argsort(lots)[:missing])

    def _spread_out(self, points: tf.Tensor, missing: tf.Tensor) -> Callable[[], tf.Tensor]:
        seed = tf.random.uniform([], maxval=_LARGEST_SEED, dtype=tf.int32, seed=self.seed)
        return lambda: tf.raw_ops.KmeansPlusPlusInitialization(
            points=points,
            num_to_sample=tf.cast(missing, tf.int64),
            seed=tf.cast(seed, tf.int64),
            num_retries_per_sample=tf.constant(self.retries, tf.int64),
        )
