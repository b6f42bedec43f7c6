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

from estimand.compat.tpu_spec import TPUEstimatorSpec
from estimand.core.spec import EstimatorSpec
from estimand.heads import Head
from estimand.heads.checks import in_session_graph
from estimand.heads.keys import ServingKeys
from estimand.heads.losses import UNREDUCED, check_reduction, reduced_loss
from estimand.heads.single import Batch
from estimand.heads.v1 import V1BinaryClassHead, V1MultiClassHead, V1RegressionHead

v1 = tf.compat.v1

_SUM = v1.losses.Reduction.SUM
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
    """What heads in the wild inherit from; they make one of the two kinds of spec."""

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

    def create_estimator_spec(self, features: Any, mode: str, logits: Any, **more: Any) -> Any:
        """What a model function returns."""
        try:
            spec = self._create_tpu_estimator_spec(features, mode, logits, **more)
        except NotImplementedError:
            raise NotImplementedError(
                "Subclasses of _Head must implement `create_estimator_spec()` or "
                "_create_tpu_estimator_spec()."
            ) from None
        return spec.as_estimator_spec()

    def _create_tpu_estimator_spec(
        self, features: Any, mode: str, logits: Any, **more: Any
    ) -> TPUEstimatorSpec:
        raise NotImplementedError("TPUEstimatorSpec not available for this model head.")


# Libraries ask whether they are given a head.
_Head.register(Head)  # type: ignore[type-abstract]


class _OlderFace:
    """The methods that changed since, in front of one of today's heads."""

    _label_range_message = "Labels must >= 0. Labels must <= n_classes - 1"

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
        """What a model function returns; a head derived from this one may say it for TPUs."""
        told: dict[str, Any] = {
            "labels": labels,
            "optimizer": optimizer,
            "train_op_fn": train_op_fn,
            "regularization_losses": regularization_losses,
        }
        if type(self)._create_tpu_estimator_spec is _OlderFace._create_tpu_estimator_spec:
            return self._own_spec(features, mode, logits, **told, **more)
        # Heads of TensorFlow 1 found variables and update operations in the collections.
        return self._create_tpu_estimator_spec(features, mode, logits, **told).as_estimator_spec()

    def _own_spec(
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
        if optimizer is not None and train_op_fn is None and _minimizes_by_itself(optimizer):
            train_op_fn = _minimizing(optimizer)
            optimizer = None
        # Canned models give the updates themselves; for others the head gathered them.
        more.setdefault("update_ops", v1.get_collection(v1.GraphKeys.UPDATE_OPS))
        return self._make_spec(  # type: ignore[attr-defined]
            features,
            mode,
            logits,
            labels,
            regularization_losses,
            optimizer=optimizer,
            train_op_fn=train_op_fn,
            **more,
        )

    def _create_tpu_estimator_spec(self, *args: Any, **more: Any) -> TPUEstimatorSpec:
        spec = self._own_spec(*args, **more)
        return TPUEstimatorSpec(
            spec.mode,
            predictions=spec.predictions,
            loss=spec.loss,
            train_op=spec.train_op,
            eval_metrics=(lambda: spec.eval_metric_ops, {}) if spec.eval_metric_ops else None,
            export_outputs=spec.export_outputs,
        )

    def _checked_reduction(self, reduction: Any) -> str:
        """These take "none", too: whoever derives from them makes one number of the losses."""
        if reduction == v1.losses.Reduction.NONE:
            return UNREDUCED
        return check_reduction(reduction)

    def _eval_metric_ops(
        self,
        labels: Any,
        weights: Any,
        unreduced_loss: Any,
        regularization_loss: Any,
        class_ids: Any = None,
        logits: Any = None,
        **others: Any,
    ) -> dict[str, Any]:
        """The metrics of one batch, for heads that put their own spec together."""
        del others
        if logits is None and class_ids is not None:
            count = self.logits_dimension  # type: ignore[attr-defined]
            logits = tf.one_hot(tf.squeeze(class_ids, -1), count)
        regularization = None if regularization_loss is None else [regularization_loss]
        metrics = self.metrics(regularization)  # type: ignore[attr-defined]
        # Where `create_loss` found no weights, it told of 1.0.
        each = weights if tf.is_tensor(weights) else None
        batch = Batch(logits, labels, unreduced_loss, each)
        return self._updated(metrics, batch, regularization)  # type: ignore[attr-defined]


def _minimizes_by_itself(optimizer: Any) -> bool:
    """A v1 optimizer where a session runs the step, or any other object with its `minimize`."""
    if isinstance(optimizer, v1.train.Optimizer):
        return in_session_graph()
    ours = hasattr(optimizer, "make_train_op") or hasattr(optimizer, "apply")
    return hasattr(optimizer, "minimize") and not ours


def _minimizing(optimizer: Any) -> Callable[[Any], Any]:
    return lambda loss: optimizer.minimize(loss, global_step=v1.train.get_global_step())


def _append_update_ops(train_op: Any) -> Any:
    updates = v1.get_collection(v1.GraphKeys.UPDATE_OPS)
    return tf.group(train_op, *updates) if updates else train_op


class _BinaryLogisticHeadWithSigmoidCrossEntropyLoss(  # type: ignore[misc]
    _OlderFace, V1BinaryClassHead, _Head
):
    pass


class _MultiClassHeadWithSoftmaxCrossEntropyLoss(  # type: ignore[misc]
    _OlderFace, V1MultiClassHead, _Head
):
    pass


class _RegressionHeadWithMeanSquaredErrorLoss(  # type: ignore[misc]
    _OlderFace, V1RegressionHead, _Head
):
    pass


def _binary_logistic_head_with_sigmoid_cross_entropy_loss(
    weight_column: Any = None,
    thresholds: Any = None,
    label_vocabulary: Any = None,
    loss_reduction: Any = _SUM,
    loss_fn: Any = None,
    name: str | None = None,
) -> _BinaryLogisticHeadWithSigmoidCrossEntropyLoss:
    return _BinaryLogisticHeadWithSigmoidCrossEntropyLoss(
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
) -> _MultiClassHeadWithSoftmaxCrossEntropyLoss:
    return _MultiClassHeadWithSoftmaxCrossEntropyLoss(
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
) -> _RegressionHeadWithMeanSquaredErrorLoss:
    return _RegressionHeadWithMeanSquaredErrorLoss(
        label_dimension=label_dimension,
        weight_column=weight_column,
        loss_reduction=loss_reduction,
        loss_fn=loss_fn,
        inverse_link_fn=inverse_link_fn,
        name=name,
    )


def _binary_logistic_or_multi_class_head(
    n_classes: int, weight_column: Any, label_vocabulary: Any, loss_reduction: Any
) -> _BinaryLogisticHeadWithSigmoidCrossEntropyLoss | _MultiClassHeadWithSoftmaxCrossEntropyLoss:
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
