"""The canned models of `tf.compat.v1.estimator`: other defaults, v1 optimizers, v1 names on disk.

They differ from those of `estimand` in this: losses are summed over the batch and not averaged,
optimizers given by name are those of `tf.compat.v1.train` (Adagrad with a rate of 0.05 in deep
models), and checkpoints name the state of optimizers as `tf.compat.v1.estimator` did, so that its
`model_dir`s continue. Partitioners are accepted and not used: variables have one part, and
checkpoints in which they had several are joined as they are read.

>>> import tensorflow as tf
>>> from estimand.compat.v1.estimator import LinearClassifier
>>> classifier = LinearClassifier([tf.feature_column.numeric_column("x")])
>>> type(classifier).__name__
'LinearClassifier'
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import tensorflow as tf

from estimand.canned import dnn, dnn_linear_combined, linear
from estimand.compat.v1.baseline_models import (
    BaselineClassifier as BaselineClassifier,
)
from estimand.compat.v1.baseline_models import (
    BaselineEstimator as BaselineEstimator,
)
from estimand.compat.v1.baseline_models import (
    BaselineRegressor as BaselineRegressor,
)
from estimand.compat.v1.old_estimator import Estimator
from estimand.core.config import RunConfig
from estimand.core.handles import FeatureColumn, Optimizer
from estimand.engine.warm_start.settings import WarmStartSettings
from estimand.heads.v1 import v1_class_head, v1_regression_head

_SUM = "weighted_sum"  # tf.compat.v1.losses.Reduction.SUM


class LinearClassifier(Estimator):
    """Linear model for two classes or more."""

    def __init__(
        self,
        feature_columns: Sequence[FeatureColumn],
        model_dir: str | os.PathLike[str] | None = None,
        n_classes: int = 2,
        weight_column: str | FeatureColumn | None = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: Optimizer = "Ftrl",
        config: RunConfig | None = None,
        partitioner: Any = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        loss_reduction: str = _SUM,
        sparse_combiner: str = "sum",
    ) -> None:
        del partitioner
        head = v1_class_head(n_classes, weight_column, label_vocabulary, loss_reduction)
        model_fn = linear.linear_model_fn(
            head, feature_columns, optimizer, sparse_combiner, v1=True
        )
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class LinearRegressor(Estimator):
    """Linear model for numbers."""

    def __init__(
        self,
        feature_columns: Sequence[FeatureColumn],
        model_dir: str | os.PathLike[str] | None = None,
        label_dimension: int = 1,
        weight_column: str | FeatureColumn | None = None,
        optimizer: Optimizer = "Ftrl",
        config: RunConfig | None = None,
        partitioner: Any = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        loss_reduction: str = _SUM,
        sparse_combiner: str = "sum",
    ) -> None:
        del partitioner
        head = v1_regression_head(label_dimension, weight_column, loss_reduction)
        model_fn = linear.linear_model_fn(
            head, feature_columns, optimizer, sparse_combiner, v1=True
        )
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class LinearEstimator(Estimator):
    """Linear model with any head."""

    def __init__(
        self,
        head: Any,
        feature_columns: Sequence[FeatureColumn],
        model_dir: str | os.PathLike[str] | None = None,
        optimizer: Optimizer = "Ftrl",
        config: RunConfig | None = None,
        partitioner: Any = None,
        sparse_combiner: str = "sum",
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
    ) -> None:
        del partitioner
        model_fn = linear.linear_model_fn(
            head, feature_columns, optimizer, sparse_combiner, v1=True
        )
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class _DeepEstimator(Estimator):
    """What the three deep models share: the model function."""

    def __init__(
        self,
        head: Any,
        hidden_units: Sequence[int],
        feature_columns: Sequence[FeatureColumn],
        model_dir: str | os.PathLike[str] | None = None,
        optimizer: Optimizer = "Adagrad",
        activation_fn: Callable[..., Any] | None = tf.nn.relu,
        dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        batch_norm: bool = False,
    ) -> None:
        del input_layer_partitioner
        model_fn = dnn.dnn_model_fn(
            head,
            hidden_units,
            feature_columns,
            optimizer,
            activation_fn,
            dropout,
            batch_norm,
            v1=True,
        )
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class DNNEstimator(_DeepEstimator):
    """Deep network with any head."""


class DNNClassifier(_DeepEstimator):
    """Deep network for two classes or more."""

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Sequence[FeatureColumn],
        model_dir: str | os.PathLike[str] | None = None,
        n_classes: int = 2,
        weight_column: str | FeatureColumn | None = None,
        label_vocabulary: Sequence[str] | None = None,
        optimizer: Optimizer = "Adagrad",
        activation_fn: Callable[..., Any] | None = tf.nn.relu,
        dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        loss_reduction: str = _SUM,
        batch_norm: bool = False,
    ) -> None:
        super().__init__(
            v1_class_head(n_classes, weight_column, label_vocabulary, loss_reduction),
            hidden_units,
            feature_columns,
            model_dir,
            optimizer,
            activation_fn,
            dropout,
            input_layer_partitioner,
            config,
            warm_start_from,
            batch_norm,
        )


class DNNRegressor(_DeepEstimator):
    """Deep network for numbers."""

    def __init__(
        self,
        hidden_units: Sequence[int],
        feature_columns: Sequence[FeatureColumn],
        model_dir: str | os.PathLike[str] | None = None,
        label_dimension: int = 1,
        weight_column: str | FeatureColumn | None = None,
        optimizer: Optimizer = "Adagrad",
        activation_fn: Callable[..., Any] | None = tf.nn.relu,
        dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        loss_reduction: str = _SUM,
        batch_norm: bool = False,
    ) -> None:
        super().__init__(
            v1_regression_head(label_dimension, weight_column, loss_reduction),
            hidden_units,
            feature_columns,
            model_dir,
            optimizer,
            activation_fn,
            dropout,
            input_layer_partitioner,
            config,
            warm_start_from,
            batch_norm,
        )


class _WideDeepEstimator(Estimator):
    """What the three wide and deep models share: the model function."""

    def __init__(
        self,
        head: Any,
        model_dir: str | os.PathLike[str] | None,
        linear_feature_columns: Sequence[FeatureColumn] | None,
        linear_optimizer: Optimizer,
        dnn_feature_columns: Sequence[FeatureColumn] | None,
        dnn_optimizer: Optimizer,
        dnn_hidden_units: Sequence[int] | None,
        dnn_activation_fn: Callable[..., Any] | None,
        dnn_dropout: float | None,
        config: RunConfig | None,
        batch_norm: bool,
        linear_sparse_combiner: str,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
    ) -> None:
        dnn_linear_combined.require_columns(linear_feature_columns, dnn_feature_columns)
        model_fn = dnn_linear_combined.combined_model_fn(
            head,
            linear_feature_columns,
            linear_optimizer,
            linear_sparse_combiner,
            dnn_feature_columns,
            dnn_optimizer,
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            batch_norm,
            v1=True,
        )
        super().__init__(model_fn, model_dir, config, warm_start_from=warm_start_from)


class DNNLinearCombinedClassifier(_WideDeepEstimator):
    """Wide and deep for two classes or more."""

    def __init__(
        self,
        model_dir: str | os.PathLike[str] | None = None,
        linear_feature_columns: Sequence[FeatureColumn] | None = None,
        linear_optimizer: Optimizer = "Ftrl",
        dnn_feature_columns: Sequence[FeatureColumn] | None = None,
        dnn_optimizer: Optimizer = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Callable[..., Any] | None = tf.nn.relu,
        dnn_dropout: float | None = None,
        n_classes: int = 2,
        weight_column: str | FeatureColumn | None = None,
        label_vocabulary: Sequence[str] | None = None,
        input_layer_partitioner: Any = None,
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        loss_reduction: str = _SUM,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        del input_layer_partitioner
        super().__init__(
            v1_class_head(n_classes, weight_column, label_vocabulary, loss_reduction),
            model_dir,
            linear_feature_columns,
            linear_optimizer,
            dnn_feature_columns,
            dnn_optimizer,
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            config,
            batch_norm,
            linear_sparse_combiner,
            warm_start_from,
        )


class DNNLinearCombinedRegressor(_WideDeepEstimator):
    """Wide and deep for numbers."""

    def __init__(
        self,
        model_dir: str | os.PathLike[str] | None = None,
        linear_feature_columns: Sequence[FeatureColumn] | None = None,
        linear_optimizer: Optimizer = "Ftrl",
        dnn_feature_columns: Sequence[FeatureColumn] | None = None,
        dnn_optimizer: Optimizer = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Callable[..., Any] | None = tf.nn.relu,
        dnn_dropout: float | None = None,
        label_dimension: int = 1,
        weight_column: str | FeatureColumn | None = None,
        input_layer_partitioner: Any = None,
        config: RunConfig | None = None,
        warm_start_from: str | os.PathLike[str] | WarmStartSettings | None = None,
        loss_reduction: str = _SUM,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        del input_layer_partitioner
        super().__init__(
            v1_regression_head(label_dimension, weight_column, loss_reduction),
            model_dir,
            linear_feature_columns,
            linear_optimizer,
            dnn_feature_columns,
            dnn_optimizer,
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            config,
            batch_norm,
            linear_sparse_combiner,
            warm_start_from,
        )


class DNNLinearCombinedEstimator(_WideDeepEstimator):
    """Wide and deep with any head."""

    def __init__(
        self,
        head: Any,
        model_dir: str | os.PathLike[str] | None = None,
        linear_feature_columns: Sequence[FeatureColumn] | None = None,
        linear_optimizer: Optimizer = "Ftrl",
        dnn_feature_columns: Sequence[FeatureColumn] | None = None,
        dnn_optimizer: Optimizer = "Adagrad",
        dnn_hidden_units: Sequence[int] | None = None,
        dnn_activation_fn: Callable[..., Any] | None = tf.nn.relu,
        dnn_dropout: float | None = None,
        input_layer_partitioner: Any = None,
        config: RunConfig | None = None,
        batch_norm: bool = False,
        linear_sparse_combiner: str = "sum",
    ) -> None:
        del input_layer_partitioner
        super().__init__(
            head,
            model_dir,
            linear_feature_columns,
            linear_optimizer,
            dnn_feature_columns,
            dnn_optimizer,
            dnn_hidden_units,
            dnn_activation_fn,
            dnn_dropout,
            config,
            batch_norm,
            linear_sparse_combiner,
        )


def __getattr__(name: str) -> Any:
    # The rest of tf.compat.v1.estimator is what it is in tf.estimator.
    import estimand

    if name == "tpu":
        return import_module("estimand.compat.v1.tpu")
    if name in estimand.__all__:
        return getattr(estimand, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
