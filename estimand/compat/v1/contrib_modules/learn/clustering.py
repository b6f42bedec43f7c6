"""`tf.contrib.learn.KMeansClustering`: k-means with `fit`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from estimand.canned.kmeans import KMeans
from estimand.compat.v1.contrib_modules.learn.estimator import FitsArrays
from estimand.core.spec import EstimatorSpec


class KMeansClustering(FitsArrays, KMeans):
    """K-means clustering, on arrays or input functions."""

    SCORES = "scores"
    CLUSTER_IDX = "cluster_idx"
    CLUSTERS = "clusters"
    ALL_SCORES = "all_scores"
    LOSS_OP_NAME = "kmeans_loss"

    def __init__(
        self,
        num_clusters: int,
        model_dir: Any = None,
        initial_clusters: Any = KMeans.RANDOM_INIT,
        distance_metric: str = KMeans.SQUARED_EUCLIDEAN_DISTANCE,
        random_seed: int | None = 0,
        use_mini_batch: bool = True,
        mini_batch_steps_per_iteration: int = 1,
        kmeans_plus_plus_num_retries: int = 2,
        relative_tolerance: float | None = None,
        config: Any = None,
    ) -> None:
        KMeans.__init__(
            self, num_clusters, model_dir, initial_clusters, distance_metric, random_seed,
            use_mini_batch, mini_batch_steps_per_iteration, kmeans_plus_plus_num_retries,
            relative_tolerance, config,
        )  # fmt: skip

    def _call_model_fn(
        self, features: Any, labels: Any, mode: str, config: Any = None
    ) -> EstimatorSpec:
        del labels  # of fit(x, y); points have none
        spec = super()._call_model_fn(features, None, mode, config)
        made = spec.predictions
        renamed = {
            self.ALL_SCORES: made[self.ALL_DISTANCES],
            self.CLUSTER_IDX: made["cluster_index"],
        }
        return spec._replace(predictions={**made, **renamed})

    def predict_cluster_idx(self, input_fn: Callable[..., Any] | None = None) -> Any:
        """The index of the nearest center for each row."""
        return self._one(self.CLUSTER_IDX, input_fn, as_iterable=True)

    def transform(  # type: ignore[override]
        self, input_fn: Callable[..., Any] | None = None, as_iterable: bool = False
    ) -> Any:
        """The (squared) distances of each row to all centers."""
        return self._one(self.ALL_SCORES, input_fn, as_iterable)

    def score(  # type: ignore[override]
        self, input_fn: Callable[..., Any] | None = None, steps: int | None = None
    ) -> Any:
        """The sum of the (squared) distances of the rows of a batch to their centers."""
        return np.sum(self.evaluate(input_fn=input_fn, steps=steps)[KMeans.SCORE])

    def clusters(self) -> Any:
        """The centers."""
        return self.cluster_centers()

    def _one(self, key: str, input_fn: Any, as_iterable: bool) -> Any:
        answers = self.predict(input_fn=input_fn, outputs=[key], as_iterable=as_iterable)
        if isinstance(answers, Mapping):
            return answers[key]
        return (answer[key] for answer in answers)
