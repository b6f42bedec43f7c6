"""K-means clustering as an Estimator."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.canned.kmeans.model import (
    CENTERS,
    COSINE,
    SQUARED_EUCLIDEAN,
    Clusters,
    Settings,
)
from estimand.canned.kmeans.start import KMEANS_PLUS_PLUS, RANDOM, Start
from estimand.canned.points import points_of
from estimand.core.config import RunConfig
from estimand.core.errors import ConfigError
from estimand.core.export_output import PredictOutput
from estimand.core.handles import FeatureColumn
from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec
from estimand.estimator.estimator import Estimator
from estimand.hooks import SessionRunArgs, SessionRunHook

_SCORE = "score"
_CLUSTER_INDEX = "cluster_index"
_ALL_DISTANCES = "all_distances"
_DEFAULT_SIGNATURE = "serving_default"
_v1 = tf.compat.v1


class KMeans(Estimator):
    """K-means clustering, on whole data or in mini-batches.

    Args:
      num_clusters: how many centers; those of `initial_clusters`, if these are given as an array.
      initial_clusters: `'random'` points of the first batch, `'kmeans_plus_plus'`, an array
        [clusters, dimensions], or a function (points, k) that returns up to k centers. What one
        batch lacks is taken from the next ones; such a step moves no center yet.
      distance_metric: `'squared_euclidean'` or `'cosine'`.
      seed: of the random choices.
      use_mini_batch: False means that every batch is all of the data, and every step one
        iteration of Lloyd's algorithm.
      mini_batch_steps_per_iteration: after so many steps the moved centers come into use.
      kmeans_plus_plus_num_retries: more draws for every center, of which the best is taken.
      relative_tolerance: training ends when the loss changes by less, relatively.
      feature_columns: what to make points of; by default all features, sorted by name.
      model_dir: where checkpoints and event files live; training continues from there.
      config: a RunConfig.

    >>> import estimand as est, numpy as np, tensorflow as tf
    >>> points = np.array([[0, 0], [0, 1], [9, 9], [9, 8]], "float32")
    >>> def input_fn():
    ...     return tf.data.Dataset.from_tensors(points)
    >>> kmeans = est.KMeans(2, initial_clusters=points[1:3], use_mini_batch=False)
    >>> kmeans.train(input_fn).cluster_centers()
    array([[0. , 0.5],
           [9. , 8.5]], dtype=float32)
    >>> [int(index) for index in kmeans.predict_cluster_index(input_fn)]
    [0, 0, 1, 1]
    >>> float(kmeans.score(input_fn))
    1.0
    """

    SQUARED_EUCLIDEAN_DISTANCE = SQUARED_EUCLIDEAN
    COSINE_DISTANCE = COSINE
    RANDOM_INIT = RANDOM
    KMEANS_PLUS_PLUS_INIT = KMEANS_PLUS_PLUS
    SCORE = _SCORE
    CLUSTER_INDEX = _CLUSTER_INDEX
    ALL_DISTANCES = _ALL_DISTANCES
    CLUSTER_CENTERS_VAR_NAME = CENTERS

    def __init__(
        self,
        num_clusters: int,
        model_dir: str | os.PathLike[str] | None = None,
        initial_clusters: Any = RANDOM,
        distance_metric: str = SQUARED_EUCLIDEAN,
        seed: int | None = None,
        use_mini_batch: bool = True,
        mini_batch_steps_per_iteration: int = 1,
        kmeans_plus_plus_num_retries: int = 2,
        relative_tolerance: float | None = None,
        config: RunConfig | None = None,
        feature_columns: Sequence[FeatureColumn] | None = None,
    ) -> None:
        if distance_metric not in (SQUARED_EUCLIDEAN, COSINE):
            raise ConfigError(
                f"Unsupported distance metric '{distance_metric}'. "
                f"Use '{SQUARED_EUCLIDEAN}' or '{COSINE}'."
            )
        centers = _given_centers(initial_clusters)
        start = None
        if centers is None:
            num_clusters = _positive(num_clusters, "num_clusters")
            start = Start(initial_clusters, seed, int(kmeans_plus_plus_num_retries))
        else:
            num_clusters = len(centers)
        settings = Settings(
            clusters=num_clusters,
            given_centers=centers,
            start=start,
            distance=distance_metric,
            mini_batch=bool(use_mini_batch),
            steps_per_iteration=_positive(
                mini_batch_steps_per_iteration, "mini_batch_steps_per_iteration"
            ),
        )
        columns = None if feature_columns is None else tuple(feature_columns)
        self._distance_metric = distance_metric
        super().__init__(kmeans_model_fn(settings, columns, relative_tolerance), model_dir, config)

    def predict_cluster_index(self, input_fn: Callable[..., Any]) -> Iterator[Any]:
        """Yield, for each point, the index of the center nearest to it."""
        for row in self.predict(input_fn, predict_keys=[_CLUSTER_INDEX]):
            yield row[_CLUSTER_INDEX]

    def transform(self, input_fn: Callable[..., Any]) -> Iterator[Any]:
        """Yield, for each point, its distances to all centers.

        Euclidean ones, not their squares; `predict` has the squares as `all_distances`.
        """
        for row in self.predict(input_fn, predict_keys=[_ALL_DISTANCES]):
            distances = row[_ALL_DISTANCES]
            yield np.sqrt(distances) if self._distance_metric == SQUARED_EUCLIDEAN else distances

    def score(self, input_fn: Callable[..., Any]) -> Any:
        """The sum of the (squared) distances from the points of one batch to their centers."""
        return self.evaluate(input_fn, steps=1)[_SCORE]

    def cluster_centers(self) -> Any:
        """The centers, [clusters, dimensions]."""
        return self.get_variable_value(CENTERS)


def kmeans_model_fn(
    settings: Settings, feature_columns: Sequence[Any] | None, tolerance: float | None
) -> Callable[..., EstimatorSpec]:
    """The model function of k-means. It takes no labels."""

    def model_fn(features: Any, mode: str, config: RunConfig) -> EstimatorSpec:
        del config
        points = points_of("KMeans", features, feature_columns)
        clusters = Clusters(settings, tf.compat.dimension_value(points.shape[1]))
        training = mode == ModeKeys.TRAIN
        with tf.control_dependencies(clusters.prepare(points) if training else []):
            distances, index, nearest = clusters.nearest(points)
            loss = tf.reduce_sum(nearest)
        predictions = {_ALL_DISTANCES: distances, _CLUSTER_INDEX: index}
        if mode == ModeKeys.PREDICT:
            outputs = {
                _ALL_DISTANCES: PredictOutput(distances),
                _CLUSTER_INDEX: PredictOutput(index),
                _DEFAULT_SIGNATURE: PredictOutput(index),
            }
            return EstimatorSpec(mode, predictions=predictions, export_outputs=outputs)
        if not training:
            metrics = {_SCORE: _v1.metrics.mean(loss)}
            return EstimatorSpec(mode, predictions=predictions, loss=loss, eval_metric_ops=metrics)
        _v1.summary.scalar("loss/raw", loss)
        # The distances are those before the centers move.
        with tf.control_dependencies([distances, loss]):
            moved = clusters.step(points, index)
        with tf.control_dependencies([moved]):
            train_op = tf.identity(_v1.train.get_global_step().assign_add(1))
        hooks = [] if tolerance is None else [_StopWhenSettled(loss, tolerance)]
        return EstimatorSpec(
            mode, predictions=predictions, loss=loss, train_op=train_op, training_hooks=hooks
        )

    return model_fn


class _StopWhenSettled(SessionRunHook):
    """Ends training when the loss hardly changes any more."""

    def __init__(self, loss: tf.Tensor, tolerance: float) -> None:
        self._loss = loss
        self._tolerance = tolerance
        self._before: float | None = None

    def before_run(self, run_context: Any) -> SessionRunArgs:
        del run_context
        return SessionRunArgs(self._loss)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        loss, before = float(run_values.results), self._before
        if before and abs(loss - before) / (1 + abs(before)) < self._tolerance:
            run_context.request_stop()
        self._before = loss


def _given_centers(initial_clusters: Any) -> np.ndarray | None:
    if isinstance(initial_clusters, str):
        if initial_clusters not in (RANDOM, KMEANS_PLUS_PLUS):
            raise ConfigError(
                f"Unsupported initialization algorithm '{initial_clusters}'. Use '{RANDOM}', "
                f"'{KMEANS_PLUS_PLUS}', an array of centers, or a function (points, k)."
            )
        return None
    if callable(initial_clusters):
        return None
    centers = np.asarray(initial_clusters, np.float32)
    if centers.ndim != 2 or not centers.size or np.isnan(centers).any():
        raise ConfigError(
            "initial_clusters must be an array of numbers, [clusters, dimensions]. "
            f"Given: {initial_clusters!r}."
        )
    return centers


def _positive(given: Any, name: str) -> int:
    try:
        number = int(given)
    except (TypeError, ValueError):
        number = 0
    if number < 1:
        raise ConfigError(f"{name} must be a whole number from 1. Given: {given!r}.")
    return number
