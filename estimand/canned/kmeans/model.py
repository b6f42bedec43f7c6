"""The mathematics of k-means: centers as variables, distances, one iteration of Lloyd's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.canned.kmeans.start import Start
from estimand.core.errors import InputError

SQUARED_EUCLIDEAN = "squared_euclidean"
COSINE = "cosine"
CENTERS = "clusters"
_v1 = tf.compat.v1


@dataclass(frozen=True)
class Settings:
    """What does not change during a training."""

    clusters: int
    given_centers: np.ndarray | None
    start: Start | None  # None where centers are given
    distance: str
    mini_batch: bool
    steps_per_iteration: int

    @property
    def two_copies(self) -> bool:
        """Whether moved centers are used only after several steps."""
        return self.mini_batch and self.steps_per_iteration > 1

    @property
    def kept_normalized(self) -> bool:
        """Whether the stored centers have length 1."""
        return self.distance == COSINE and (not self.mini_batch or self.two_copies)


class Clusters:
    """The variables, under the names that they have in upstream's checkpoints."""

    def __init__(self, settings: Settings, dimensions: int) -> None:
        self.settings = settings
        first = self._first_centers(dimensions)
        ready = not np.isnan(first).any()
        self.centers = _variable(first, CENTERS)
        self.ready = _variable(ready, "initialized")
        self.moved: Any = self.centers
        self.countdown: Any = None
        self.counts: Any = None
        if settings.two_copies:
            self.moved = _variable(first, "clusters_updated")
            self.countdown = _variable(np.int64(settings.steps_per_iteration), "update_in_steps")
        if settings.mini_batch:
            # A center that moves at every step counts as one point itself.
            seen = np.zeros if settings.two_copies else np.ones
            self.counts = _variable(seen([settings.clusters], np.int64), None)

    def _first_centers(self, dimensions: int) -> np.ndarray:
        given = self.settings.given_centers
        if given is None:
            # NaN stands for a center that is not chosen yet.
            return np.full([self.settings.clusters, dimensions], math.nan, np.float32)
        if given.shape[1] != dimensions:
            raise InputError(
                f"initial_clusters have {given.shape[1]} numbers per center, but the points of "
                f"input_fn have {dimensions}."
            )
        if self.settings.distance == COSINE:
            given = given / np.maximum(np.linalg.norm(given, axis=1, keepdims=True), 1e-6)
        return given

    # Choosing the first centers

    def chosen(self) -> tf.Tensor:
        """The centers that there are by now, [up to clusters, dimensions]."""
        centers = self.centers.read_value()
        count = _how_many(centers)
        return centers[:count]

    def prepare(self, points: tf.Tensor) -> list[Any]:
        """What has to run before the distances of a training step are computed."""
        ready = [] if self.settings.start is None else [self._start(points, self.settings.start)]
        if self.countdown is None:
            return ready
        with tf.control_dependencies(ready):
            started = self.ready.read_value()
            return [tf.cond(started, self._begin_step, lambda: tf.constant(False))]

    def _start(self, points: tf.Tensor, start: Start) -> tf.Tensor:
        """Take missing centers from the points, if any are missing."""
        centers = self.centers.read_value()
        count = _how_many(centers)
        candidates = points
        if self.settings.distance == COSINE:
            candidates = tf.math.l2_normalize(points, axis=1)
        choose = start.choose(candidates, self.settings.clusters - count)

        def take() -> tf.Tensor:
            new = choose()
            if self.settings.distance == COSINE:
                new = tf.math.l2_normalize(new, axis=1)
            together = tf.concat([centers[:count], new], axis=0)
            missing = self.settings.clusters - tf.shape(together)[0]
            filled = tf.pad(together, [[0, missing], [0, 0]], constant_values=math.nan)
            filled = tf.ensure_shape(filled, self.centers.shape)
            done = [self.centers.assign(filled, read_value=False)]
            if self.moved is not self.centers:
                done.append(self.moved.assign(filled, read_value=False))
            done.append(self.ready.assign(missing <= 0, read_value=False))
            with tf.control_dependencies(_operations(done)):
                return tf.constant(True)

        return tf.cond(self.ready.read_value(), lambda: tf.constant(False), take)

    # Distances

    def nearest(self, points: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Distances to all centers, the index of the nearest, the distance to it."""
        centers = self.chosen()
        if self.settings.distance == COSINE:
            points = tf.math.l2_normalize(points, axis=1)
            if not self.settings.kept_normalized:
                centers = tf.math.l2_normalize(centers, axis=1)
        indices, distances = tf.raw_ops.NearestNeighbors(
            points=points, centers=centers, k=tf.constant(1, tf.int64)
        )
        index, distance = indices[:, 0], distances[:, 0]
        if self.settings.distance == COSINE:
            # |u - v|² = 2 - 2 u·v, where u and v have length 1.
            everything = 1 - tf.matmul(points, centers, transpose_b=True)
            return everything, index, distance * 0.5
        return squared_distances(points, centers), index, distance

    # One step of training

    def step(self, points: tf.Tensor, index: tf.Tensor) -> tf.Tensor:
        """Move the centers, once there are enough of them."""
        if self.settings.distance == COSINE:
            points = tf.math.l2_normalize(points, axis=1)

        def move() -> tf.Tensor:
            if self.settings.mini_batch:
                done = self._mini_batch(points, index)
            else:
                done = self._full(points, index)
            with tf.control_dependencies(_operations(done)):
                return tf.constant(True)

        return tf.cond(self.ready.read_value(), move, lambda: tf.constant(False))

    def _sums(self, points: tf.Tensor, index: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        clusters = self.settings.clusters
        ones = tf.ones_like(index)
        counts = tf.math.unsorted_segment_sum(ones, index, clusters)
        return tf.math.unsorted_segment_sum(points, index, clusters), counts

    def _full(self, points: tf.Tensor, index: tf.Tensor) -> list[Any]:
        sums, counts = self._sums(points, index)
        means = tf.math.divide_no_nan(sums, tf.cast(counts, sums.dtype)[:, None])
        # A center that nobody is nearest to stays where it is.
        centers = tf.where(counts[:, None] > 0, means, self.centers.read_value())
        if self.settings.kept_normalized:
            centers = tf.math.l2_normalize(centers, axis=1)
        return [self.centers.assign(centers, read_value=False)]

    def _mini_batch(self, points: tf.Tensor, index: tf.Tensor) -> list[Any]:
        centers, before = self.moved.read_value(), self.counts.read_value()
        sums, counts = self._sums(points, index)
        together = before + counts
        pull = sums - tf.cast(counts, sums.dtype)[:, None] * centers
        pulled = tf.math.divide_no_nan(pull, tf.cast(together, sums.dtype)[:, None])
        return [
            self.moved.assign(centers + pulled, read_value=False),
            self.counts.assign(together, read_value=False),
        ]

    def _begin_step(self) -> tf.Tensor:
        """After so many steps: use the moved centers from now on, and count anew."""
        left = self.countdown.read_value()

        def renew() -> tf.Tensor:
            centers = self.moved.read_value()
            if self.settings.kept_normalized:
                centers = tf.math.l2_normalize(centers, axis=1)
            done = [
                self.centers.assign(centers, read_value=False),
                self.counts.assign(tf.zeros_like(self.counts.read_value()), read_value=False),
            ]
            with tf.control_dependencies(_operations(done)):
                return tf.constant(self.settings.steps_per_iteration - 1, tf.int64)

        next_left = tf.cond(left <= 0, renew, lambda: left - 1)
        counted = [self.countdown.assign(next_left, read_value=False)]
        with tf.control_dependencies(_operations(counted)):
            return tf.constant(True)


def squared_distances(points: tf.Tensor, centers: tf.Tensor) -> tf.Tensor:
    """[points, centers]; never below zero, whatever rounding does."""
    own = tf.reduce_sum(tf.square(points), 1, keepdims=True)
    theirs = tf.reduce_sum(tf.square(centers), 1)[None, :]
    return tf.maximum(own - 2 * tf.matmul(points, centers, transpose_b=True) + theirs, 0.0)


def _how_many(centers: tf.Tensor) -> tf.Tensor:
    missing = tf.reduce_any(tf.math.is_nan(centers), axis=1)
    return tf.reduce_sum(tf.cast(~missing, tf.int32))


def _variable(value: Any, name: str | None) -> tf.Variable:
    return _v1.Variable(value, name=name, trainable=False)


def _operations(done: Sequence[Any]) -> list[Any]:
    """Of what was done, the operations: in eager mode there are none."""
    return [op for op in done if op is not None]
