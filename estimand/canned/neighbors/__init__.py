"""K nearest neighbours: training stores the examples, prediction asks the nearest of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimand.canned.neighbors.model import Memory
from estimand.canned.points import points_of
from estimand.canned.probabilities import logits_for
from estimand.core.config import RunConfig
from estimand.core.errors import ConfigError
from estimand.core.handles import FeatureColumn
from estimand.core.modes import ModeKeys
from estimand.core.spec import EstimatorSpec
from estimand.estimator.estimator import Estimator
from estimand.heads import RegressionHead, binary_or_multi_class_head
from estimand.heads.single import SingleHead

_UNIFORM, _DISTANCE = "uniform", "distance"
_EUCLIDEAN, _COSINE = "euclidean", "cosine"
_v1 = tf.compat.v1

Answer = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


class KNeighborsClassifier(Estimator):
    """The vote of the nearest examples.

    Args:
      feature_columns: what to make points of; by default all features, sorted by name.
      n_neighbors: how many examples vote.
      weights: `'uniform'`, or `'distance'`: a vote counts by the inverse of its distance.
      metric: `'euclidean'` or `'cosine'`.
      n_classes, label_vocabulary: as of other classifiers.
      model_dir: where checkpoints and event files live; training continues from there.
      config: a RunConfig.

    Training reads each batch once and stores it, so give it one pass over the data: no
    `repeat()`. Trained again, it knows the new examples in addition. There is nothing to
    minimize: the loss of training is 0. Predictions have `neighbor_distances` and
    `neighbor_indices` (in the order of training) besides what every classifier has.

    >>> import estimand as est, tensorflow as tf
    >>> def input_fn():
    ...     x = [[0.0], [1.0], [2.0], [9.0], [10.0]]
    ...     return tf.data.Dataset.from_tensors(({"x": x}, [0, 0, 0, 1, 1]))
    >>> classifier = est.KNeighborsClassifier(n_neighbors=3).train(input_fn)
    >>> [int(row["class_ids"][0]) for row in classifier.predict(input_fn)]
    [0, 0, 0, 1, 1]
    """

    def __init__(
        self,
        feature_columns: Sequence[FeatureColumn] | None = None,
        model_dir: str | os.PathLike[str] | None = None,
        n_neighbors: int = 5,
        n_classes: int = 2,
        label_vocabulary: Sequence[str] | None = None,
        weights: str = _UNIFORM,
        metric: str = _EUCLIDEAN,
        config: RunConfig | None = None,
    ) -> None:
        head: SingleHead = binary_or_multi_class_head(n_classes, None, label_vocabulary)

        def vote(labels: tf.Tensor, shares: tf.Tensor) -> tf.Tensor:
            votes = tf.one_hot(tf.cast(labels[:, :, 0], tf.int32), n_classes)
            return logits_for(tf.reduce_sum(votes * shares[:, :, None], axis=1))

        model_fn = neighbors_model_fn(
            head, vote, 1, feature_columns, n_neighbors, weights, metric, "KNeighborsClassifier"
        )
        super().__init__(model_fn, model_dir, config)


class KNeighborsRegressor(Estimator):
    """The mean of the nearest examples; arguments as of `KNeighborsClassifier`.

    Args:
      feature_columns: the columns that the model reads.
      model_dir: where checkpoints and event files live; training continues from there.
      n_neighbors: how many of the nearest examples answer.
      label_dimension: how many numbers a label has.
      weights: "uniform" or "distance".
      metric: "euclidean" and the like, as of `KNeighborsClassifier`.
      config: a RunConfig.

    >>> import estimand as est, numpy as np
    >>> x = np.arange(8, dtype="float32")
    >>> read = est.inputs.numpy_input_fn({"x": x}, 2 * x, shuffle=False)
    >>> nearest = est.KNeighborsRegressor(n_neighbors=1).train(read)
    >>> float(next(nearest.predict(read))["predictions"][0])
    0.0
    """

    def __init__(
        self,
        feature_columns: Sequence[FeatureColumn] | None = None,
        model_dir: str | os.PathLike[str] | None = None,
        n_neighbors: int = 5,
        label_dimension: int = 1,
        weights: str = _UNIFORM,
        metric: str = _EUCLIDEAN,
        config: RunConfig | None = None,
    ) -> None:
        def mean(labels: tf.Tensor, shares: tf.Tensor) -> tf.Tensor:
            return tf.reduce_sum(labels * shares[:, :, None], axis=1)

        model_fn = neighbors_model_fn(
            RegressionHead(label_dimension),
            mean,
            label_dimension,
            feature_columns,
            n_neighbors,
            weights,
            metric,
            "KNeighborsRegressor",
        )
        super().__init__(model_fn, model_dir, config)


def neighbors_model_fn(
    head: SingleHead,
    answer: Answer,
    label_dimension: int,
    feature_columns: Any,
    n_neighbors: int,
    weights: str,
    metric: str,
    who: str,
) -> Callable[..., EstimatorSpec]:
    """The model function; `answer` makes logits of the neighbours' labels and shares."""
    _check(weights, "weights", (_UNIFORM, _DISTANCE))
    _check(metric, "metric", (_EUCLIDEAN, _COSINE))
    if not isinstance(n_neighbors, int) or n_neighbors < 1:
        raise ConfigError(f"n_neighbors must be a whole number from 1. Given: {n_neighbors!r}.")
    columns = None if feature_columns is None else tuple(feature_columns)

    def model_fn(features: Any, labels: Any, mode: str, config: RunConfig) -> EstimatorSpec:
        del config
        points = points_of(who, features, columns)
        memory = Memory(points.shape[1], [label_dimension], tf.float32)
        if mode == ModeKeys.TRAIN:
            rows = tf.zeros([tf.shape(points)[0], head.logits_dimension])
            usable = head._usable_labels(labels, rows)
            return _stored(memory, points, tf.cast(usable, tf.float32))
        distances, places = memory.nearest(points, n_neighbors, metric == _COSINE)
        known = tf.gather(memory.labels.read_value(), places)
        logits = answer(known, _shares(distances, weights))
        spec = head.create_estimator_spec(
            features=features, mode=mode, labels=labels, logits=logits
        )
        more = {"neighbor_distances": distances, "neighbor_indices": places}
        return spec._replace(predictions={**spec.predictions, **more})

    return model_fn


def _stored(memory: Memory, points: tf.Tensor, labels: tf.Tensor) -> EstimatorSpec:
    with tf.control_dependencies(memory.store(points, labels)):
        train_op = tf.identity(_v1.train.get_global_step().assign_add(1))
    return EstimatorSpec(ModeKeys.TRAIN, loss=tf.constant(0.0), train_op=train_op)


def _shares(distances: tf.Tensor, weights: str) -> tf.Tensor:
    """How much each neighbour counts; 1 in total."""
    counts = tf.ones_like(distances)
    if weights == _DISTANCE:
        # An example at the very same place leaves nothing to say for those farther away.
        here = tf.cast(tf.equal(distances, 0), distances.dtype)
        anyone_here = tf.reduce_any(here > 0, axis=1, keepdims=True)
        counts = tf.where(anyone_here, here, tf.math.reciprocal_no_nan(distances))
    return counts / tf.reduce_sum(counts, axis=1, keepdims=True)


def _check(given: Any, name: str, accepted: Sequence[str]) -> None:
    if given not in accepted:
        choice = " or ".join(map(repr, accepted))
        raise ConfigError(f"{name} must be {choice}. Given: {given!r}.")
