"""The heads of `tensorflow_estimator.python.estimator.canned.head`: ours, with the older face.

Their losses are summed over the batch, and besides the methods of today's heads they have
`create_loss`.

>>> head = _regression_head(label_dimension=2)
>>> head.logits_dimension, isinstance(head, _Head)
(2, True)
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from estimand.core.spec import EstimatorSpec
from estimand.heads import MultiClassHead, RegressionHead
from estimand.heads.keys import ServingKeys
from estimand.heads.losses import reduced_loss
from estimand.heads.v1 import V1BinaryClassHead

_SUM = tf.compat.v1.losses.Reduction.SUM
_DEFAULT_SERVING_KEY = ServingKeys.DEFAULT
_CLASSIFY_SERVING_KEY = ServingKeys.CLASSIFY
_REGRESS_SERVING_KEY = ServingKeys.REGRESS
_PREDICT_SERVING_KEY = ServingKeys.PREDICT


class LossSpec(NamedTuple):
    """What `create_loss` returns."""

    training_loss: Any
    unreduced_loss: Any
    weights: Any
    processed_labels: Any


class _Head(abc.ABC):
    """What heads in the wild inherit from."""

    @property
    @abc.abstractmethod
    def name(self) -> Any:
        """The name of this head."""

    @property
    @abc.abstractmethod
    def logits_dimension(self) -> int:
        """The size of the last dimension of logits."""

    @abc.abstractmethod
    def create_loss(self, features: Any, mode: str, logits: Any, labels: Any) -> Any:
        """The loss and what it was made of."""

    @abc.abstractmethod
    def create_estimator_spec(self, features: Any, mode: str, logits: Any, **more: Any) -> Any:
        """What a model function returns."""


class _OlderFace:
    """The methods that changed since, in front of one of today's heads."""

    def create_loss(self, features: Any, mode: str, logits: Any, labels: Any) -> LossSpec:
        del mode
        batch = self._batch(labels, logits, features)  # type: ignore[attr-defined]
        reduction = self.loss_reduction  # type: ignore[attr-defined]
        weights = 1.0 if batch.weights is None else batch.weights
        loss = reduced_loss(batch.losses, batch.weights, reduction)
        return LossSpec(loss, batch.losses, weights, batch.labels)

    def create_estimator_spec(
        self,
        features: Any,
        mode: str,
        logits: Any,
        labels: Any = None,
        optimizer: Any = None,
        train_op_fn: Callable[[Any], Any] | None = None,
        regularization_losses: Sequence[Any] | None = None,
        **more: Any,
    ) -> EstimatorSpec:
        # Python finds the modern method behind this one in the order of base classes.
        return super().create_estimator_spec(  # type: ignore[misc]
            features,
            mode,
            logits,
            labels=labels,
            optimizer=optimizer,
            train_op_fn=train_op_fn,
            regularization_losses=regularization_losses,
            **more,
        )


class _BinaryLogisticHead(_OlderFace, V1BinaryClassHead, _Head):  # type: ignore[misc]
    pass


class _MultiClassHead(_OlderFace, MultiClassHead, _Head):  # type: ignore[misc]
    pass


class _RegressionHead(_OlderFace, RegressionHead, _Head):  # type: ignore[misc]
    pass


def _binary_logistic_head_with_sigmoid_cross_entropy_loss(
    weight_column: Any = None,
    thresholds: Any = None,
    label_vocabulary: Any = None,
    loss_reduction: Any = _SUM,
    loss_fn: Any = None,
    name: str | None = None,
) -> _BinaryLogisticHead:
    return _BinaryLogisticHead(
        weight_column=weight_column,
        thresholds=thresholds,
        label_vocabulary=label_vocabulary,
        loss_reduction=loss_reduction,
        loss_fn=loss_fn,
        name=name,
    )


def _multi_class_head_with_softmax_cross_entropy_loss(
    n_classes: int,
    weight_column: Any = None,
    label_vocabulary: Any = None,
    loss_reduction: Any = _SUM,
    loss_fn: Any = None,
    name: str | None = None,
) -> _MultiClassHead:
    return _MultiClassHead(
        n_classes,
        weight_column=weight_column,
        label_vocabulary=label_vocabulary,
        loss_reduction=loss_reduction,
        loss_fn=loss_fn,
        name=name,
    )


def _regression_head(
    weight_column: Any = None,
    label_dimension: int = 1,
    loss_reduction: Any = _SUM,
    loss_fn: Any = None,
    inverse_link_fn: Any = None,
    name: str | None = None,
) -> _RegressionHead:
    return _RegressionHead(
        label_dimension=label_dimension,
        weight_column=weight_column,
        loss_reduction=loss_reduction,
        loss_fn=loss_fn,
        inverse_link_fn=inverse_link_fn,
        name=name,
    )


def _binary_logistic_or_multi_class_head(
    n_classes: int, weight_column: Any, label_vocabulary: Any, loss_reduction: Any
) -> _BinaryLogisticHead | _MultiClassHead:
    """The head that fits a number of classes."""
    if n_classes == 2:
        return _binary_logistic_head_with_sigmoid_cross_entropy_loss(
            weight_column, label_vocabulary=label_vocabulary, loss_reduction=loss_reduction
        )
    return _multi_class_head_with_softmax_cross_entropy_loss(
        n_classes, weight_column, label_vocabulary, loss_reduction
    )


def _summary_key(head_name: str | None, val: str) -> str:
    return f"{val}/{head_name}" if head_name else val


def _create_eval_metrics_tuple(fn: Callable[..., Any], kwargs: dict[str, Any]) -> Any:
    """(function, its tensors) for `TPUEstimatorSpec.eval_metrics`, without those that are None."""
    tensors = {key: value for key, value in kwargs.items() if value is not None}
    return (lambda **given: fn(**{**dict.fromkeys(kwargs), **given})), tensors
