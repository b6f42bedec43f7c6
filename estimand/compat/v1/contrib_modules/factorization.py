"""`tf.contrib.factorization`: k-means, as an Estimator and as ops."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.canned.kmeans import KMeans as KMeansClustering
from estimand.core.errors import ConfigError

v1 = tf.compat.v1
SQUARED_EUCLIDEAN_DISTANCE = "squared_euclidean"
COSINE_DISTANCE = "cosine"
RANDOM_INIT = "random"
KMEANS_PLUS_PLUS_INIT = "kmeans_plus_plus"

__all__ = ["KMeans", "KMeansClustering"]


class KMeans:
    """The ops of k-means over batches of points."""

    RANDOM_INIT = RANDOM_INIT
    KMEANS_PLUS_PLUS_INIT = KMEANS_PLUS_PLUS_INIT
    SQUARED_EUCLIDEAN_DISTANCE = SQUARED_EUCLIDEAN_DISTANCE
    COSINE_DISTANCE = COSINE_DISTANCE

    def __init__(
        self,
        inputs: Any,
        num_clusters: int,
        initial_clusters: Any = RANDOM_INIT,
        distance_metric: str = SQUARED_EUCLIDEAN_DISTANCE,
        use_mini_batch: bool = False,
        mini_batch_steps_per_iteration: int = 1,
        random_seed: int = 0,
        kmeans_plus_plus_num_retries: int = 2,
        kmc2_chain_length: int = 200,
    ) -> None:
        del mini_batch_steps_per_iteration, kmeans_plus_plus_num_retries, kmc2_chain_length
        if distance_metric not in (SQUARED_EUCLIDEAN_DISTANCE, COSINE_DISTANCE):
            raise ConfigError(f"Unsupported distance metric passed to Kmeans {distance_metric}.")
        batches = inputs if isinstance(inputs, list | tuple) else [inputs]
        self._points = tf.concat([tf.convert_to_tensor(batch) for batch in batches], 0)
        self._count, self._initial, self._metric = num_clusters, initial_clusters, distance_metric
        self._mini_batch, self._seed = use_mini_batch, random_seed

    def training_graph(self) -> tuple[Any, ...]:
        """All scores, clusters and scores of the points (as lists of one), and the ops."""
        points = self._points
        if self._metric == COSINE_DISTANCE:
            points = tf.math.l2_normalize(points, 1)
        size = [self._count, int(points.shape[1])]
        centers = v1.get_variable(
            "clusters",
            size,
            points.dtype,
            v1.zeros_initializer(),
            trainable=False,
            use_resource=True,
        )
        counts = v1.get_variable(
            "counts",
            size[:1],
            points.dtype,
            v1.zeros_initializer(),
            trainable=False,
            use_resource=True,
        )
        ready = v1.get_variable(
            "initialized", [], tf.bool, v1.zeros_initializer(), trainable=False, use_resource=True
        )
        with tf.control_dependencies([centers.assign(self._first(points))]):
            init = ready.assign(True, read_value=False)
        distances = _distances(points, centers.read_value(), self._metric)
        nearest = tf.argmin(distances, 1)
        scores = tf.reduce_min(distances, 1)
        train = self._step(points, nearest, centers, counts)
        return [distances], [nearest], [scores], ready.read_value(), init, train

    def _first(self, points: tf.Tensor) -> tf.Tensor:
        given = self._initial
        if callable(given):
            return given(points, self._count)
        if not isinstance(given, str):
            return tf.convert_to_tensor(given, points.dtype)
        if given == RANDOM_INIT:
            return tf.random.shuffle(points, seed=self._seed or None)[: self._count]
        return _spread(points, self._count, self._seed)

    def _step(self, points: Any, nearest: Any, centers: Any, counts: Any) -> tf.Operation:
        sums = tf.math.unsorted_segment_sum(points, nearest, self._count)
        points_of = tf.math.unsorted_segment_sum(tf.ones_like(points[:, 0]), nearest, self._count)
        before = counts.read_value() if self._mini_batch else tf.zeros_like(points_of)
        total = before + points_of
        old = centers.read_value()
        mean = (old * before[:, tf.newaxis] + sums) / tf.maximum(total, 1.0)[:, tf.newaxis]
        new = tf.where(total[:, tf.newaxis] > 0, mean, old)
        with tf.control_dependencies([old, before]):
            return tf.group(centers.assign(new), counts.assign(total))


def _distances(points: tf.Tensor, centers: tf.Tensor, metric: str) -> tf.Tensor:
    product = tf.matmul(points, centers, transpose_b=True)
    if metric == COSINE_DISTANCE:
        return 1.0 - product / tf.maximum(tf.norm(centers, axis=1), 1e-12)
    squares = tf.reduce_sum(points**2, 1, keepdims=True) + tf.reduce_sum(centers**2, 1)
    return tf.maximum(squares - 2.0 * product, 0.0)


def _spread(points: tf.Tensor, count: int, seed: int) -> tf.Tensor:
    """k-means++: each further center is drawn by its squared distance from those before."""
    chosen = [tf.random.shuffle(points, seed=seed or None)[:1]]
    for _ in range(count - 1):
        far = tf.reduce_min(_distances(points, tf.concat(chosen, 0), SQUARED_EUCLIDEAN_DISTANCE), 1)
        logits = tf.math.log(tf.maximum(far, 1e-30))[tf.newaxis]
        draw = tf.random.categorical(logits, 1, seed=seed or None)[0]
        chosen.append(tf.gather(points, draw))
    return tf.concat(chosen, 0)
