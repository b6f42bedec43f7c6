"""The baselines of `tf.compat.v1.estimator`, part of `estimand.compat.v1.estimator`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from estimand.canned import baseline
from estimand.compat.v1.old_estimator import Estimator
from estimand.core.config import RunConfig
from estimand.core.handles import FeatureColumn, Optimizer
from estimand.heads.v1 import v1_class_head, v1_regression_head

_SUM = "weighted_sum"  # tf.compat.v1.losses.Reduction.SUM


class BaselineClassifier(Estimator):
    """Predicts the share of each class in the labels."""

    def __init__(
        self,
        model_dir: str | os.PathLike[str] | None = None,
        n_classes: int = 2,
        weight_column: str | FeatureColumn | None = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: Optimizer = "Ftrl",
        config: RunConfig | None = None,
        loss_reduction: str = _SUM,
    ) -> None:
        head = v1_class_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        model_fn = baseline.baseline_model_fn(head, optimizer, weight_column, v1=True)
        super().__init__(model_fn, model_dir, config)


class BaselineRegressor(Estimator):
    """Predicts the mean of the labels."""

    def __init__(
        self,
        model_dir: str | os.PathLike[str] | None = None,
        label_dimension: int = 1,
        weight_column: str | FeatureColumn | None = None,
        optimizer: Optimizer = "Ftrl",
        config: RunConfig | None = None,
        loss_reduction: str = _SUM,
    ) -> None:
        head = v1_regression_head(label_dimension, weight_column, loss_reduction)
        model_fn = baseline.baseline_model_fn(head, optimizer, weight_column, v1=True)
        super().__init__(model_fn, model_dir, config)


class BaselineEstimator(Estimator):
    """A baseline for any head."""

    def __init__(
        self,
        head: Any,
        model_dir: str | os.PathLike[str] | None = None,
        optimizer: Optimizer = "Ftrl",
        config: RunConfig | None = None,
    ) -> None:
        super().__init__(baseline.baseline_model_fn(head, optimizer, v1=True), model_dir, config)
