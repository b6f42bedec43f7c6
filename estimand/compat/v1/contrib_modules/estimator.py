"""`tf.contrib.estimator`: heads by function; losses are averaged over the batch, as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand import heads
from estimand.compat.private import canned_heads
from estimand.compat.v1.optimizer_wrappers import ClipByGlobalNorm
from estimand.core.spec import EstimatorSpec
from estimand.estimator.estimator import Estimator

_MEAN = tf.compat.v1.losses.Reduction.SUM_OVER_BATCH_SIZE


def multi_head(heads_: Any = None, head_weights: Any = None, **named: Any) -> heads.MultiHead:
    """One head of several, for a model with several labels.

    >>> both = multi_head([regression_head(name="price"), binary_classification_head(name="sold")])
    >>> both.logits_dimension
    2
    """
    return heads.MultiHead(named.get("heads", heads_), head_weights)


def binary_classification_head(
    weight_column: Any = None,
    thresholds: Any = None,
    label_vocabulary: Any = None,
    loss_reduction: Any = _MEAN,
    loss_fn: Any = None,
    name: str | None = None,
) -> heads.BinaryClassHead:
    """A head for two classes."""
    return canned_heads._binary_logistic_head_with_sigmoid_cross_entropy_loss(
        weight_column, thresholds, label_vocabulary, loss_reduction, loss_fn, name
    )


def multi_class_head(
    n_classes: int,
    weight_column: Any = None,
    label_vocabulary: Any = None,
    loss_reduction: Any = _MEAN,
    loss_fn: Any = None,
    name: str | None = None,
) -> heads.MultiClassHead:
    """A head for more than two classes."""
    return canned_heads._multi_class_head_with_softmax_cross_entropy_loss(
        n_classes, weight_column, label_vocabulary, loss_reduction, loss_fn, name
    )


def multi_label_head(
    n_classes: int,
    weight_column: Any = None,
    thresholds: Any = None,
    label_vocabulary: Any = None,
    loss_reduction: Any = _MEAN,
    loss_fn: Any = None,
    classes_for_class_based_metrics: Any = None,
    name: str | None = None,
) -> heads.MultiLabelHead:
    """A head for several labels at once."""
    return heads.MultiLabelHead(
        n_classes,
        weight_column,
        thresholds,
        label_vocabulary,
        loss_reduction,
        loss_fn,
        classes_for_class_based_metrics,
        name,
    )


def regression_head(
    weight_column: Any = None,
    label_dimension: int = 1,
    loss_reduction: Any = _MEAN,
    loss_fn: Any = None,
    inverse_link_fn: Any = None,
    name: str | None = None,
) -> heads.RegressionHead:
    """A head for numbers."""
    return canned_heads._regression_head(
        weight_column, label_dimension, loss_reduction, loss_fn, inverse_link_fn, name
    )


def poisson_regression_head(
    weight_column: Any = None,
    label_dimension: int = 1,
    loss_reduction: Any = _MEAN,
    compute_full_loss: bool = True,
    name: str | None = None,
) -> heads.PoissonRegressionHead:
    """A head for counts."""
    return heads.PoissonRegressionHead(
        label_dimension, weight_column, loss_reduction, compute_full_loss, name
    )


def logistic_regression_head(
    weight_column: Any = None, loss_reduction: Any = _MEAN, name: str | None = None
) -> heads.LogisticRegressionHead:
    """A head for numbers between 0 and 1."""
    return heads.LogisticRegressionHead(weight_column, loss_reduction, name)


def replicate_model_fn(
    model_fn: Callable[..., Any], loss_reduction: Any = None, devices: Any = None
) -> Callable[..., Any]:
    """The model function itself, for one device.

    Several are had by `RunConfig(train_distribute=tf.distribute.MirroredStrategy())`.
    """
    del loss_reduction, devices
    return model_fn


def TowerOptimizer(optimizer_or_optimizer_fn: Any) -> Any:
    """The optimizer of a model function that is given to `replicate_model_fn`."""
    if isinstance(optimizer_or_optimizer_fn, tf.compat.v1.train.Optimizer):
        return optimizer_or_optimizer_fn
    return optimizer_or_optimizer_fn()


def clip_gradients_by_norm(optimizer: Any, clip_norm: float) -> Any:
    """An optimizer that clips the global norm of the gradients first."""
    return ClipByGlobalNorm(optimizer, clip_norm)


def forward_features(
    estimator: Estimator, keys: Any = None, sparse_default_values: dict[str, Any] | None = None
) -> Estimator:
    """An Estimator whose predictions also hold the features named by `keys` (all without it)."""
    names = [keys] if isinstance(keys, str) else keys
    defaults = sparse_default_values or {}

    def dense(key: str, value: Any) -> Any:
        if isinstance(value, tf.SparseTensor):
            return tf.sparse.to_dense(value, default_value=defaults.get(key))
        return value

    inner: Callable[..., EstimatorSpec] = estimator.model_fn

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        spec = inner(features, labels, mode, config)
        if spec.predictions is None:
            return spec
        chosen = {key: dense(key, features[key]) for key in (names or features)}
        return spec._replace(predictions={**spec.predictions, **chosen})

    return Estimator(model_fn, estimator.model_dir, estimator.config)
