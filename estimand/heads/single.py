"""A head with one kind of label: the way from a batch to its loss and metrics."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from estimand.core.errors import HeadError
from estimand.core.handles import FeatureColumn
from estimand.core.modes import ModeKeys
from estimand.heads import losses
from estimand.heads.base import Head
from estimand.heads.keys import MetricKeys
from estimand.heads.logits import checked_logits
from estimand.heads.metrics import Mean
from estimand.heads.weights import check_weight_column, weights_for

LossFn = Callable[..., Any]


@dataclass(frozen=True)
class Batch:
    """Checked and in matching shapes: what losses and metrics are made of."""

    logits: tf.Tensor
    labels: tf.Tensor
    losses: tf.Tensor
    weights: tf.Tensor | None  # None: every example counts alike


class SingleHead(Head):
    """Subclasses say what labels, losses, predictions and metrics are."""

    # The last dimension of losses: one per example, or one per logit.
    _loss_dimension = 1
    _weights_per_logit = False
    # What is said of labels out of range; None: the words of `checked_range`.
    _label_range_message: str | None = None

    def __init__(
        self,
        weight_column: str | FeatureColumn | None,
        loss_reduction: str,
        loss_fn: LossFn | None,
        name: str | None,
    ) -> None:
        check_weight_column(weight_column)
        losses.check_loss_fn(loss_fn)
        self._weight_column = weight_column
        self._loss_reduction = self._checked_reduction(loss_reduction)
        self._loss_fn = loss_fn
        self._name = name

    @property
    def name(self) -> str | None:
        return self._name

    @property
    def loss_reduction(self) -> str:
        return self._loss_reduction

    def _checked_reduction(self, reduction: Any) -> str:
        return losses.check_reduction(reduction)

    def loss(
        self,
        labels: Any,
        logits: Any,
        features: Any = None,
        mode: str | None = None,
        regularization_losses: Sequence[Any] | None = None,
    ) -> tf.Tensor:
        with tf.name_scope("losses"):
            batch = self._batch(labels, logits, features)
            loss = losses.reduced_loss(batch.losses, batch.weights, self._loss_reduction)
            result = losses.with_regularization(loss, regularization_losses)
        losses.name_as_in_v1(loss, batch.losses, batch.weights, self._loss_reduction)
        if mode == ModeKeys.TRAIN:
            self._summarise(batch)
        return result

    def _summarise(self, batch: Batch) -> None:
        """What training writes for TensorBoard beside the loss."""

    def metrics(self, regularization_losses: Sequence[Any] | None = None) -> dict[str, Any]:
        with tf.name_scope("metrics"):
            made: dict[str, Any] = {
                MetricKeys.LOSS_MEAN: Mean(MetricKeys.LOSS_MEAN),
                **self._metrics(),
            }
            if regularization_losses:
                key = MetricKeys.LOSS_REGULARIZATION
                made[key] = Mean(key)
            return {self._summary_key(key): metric for key, metric in made.items()}

    def update_metrics(
        self,
        eval_metrics: dict[str, Any],
        features: Any,
        logits: Any,
        labels: Any,
        regularization_losses: Sequence[Any] | None = None,
    ) -> dict[str, Any]:
        with tf.name_scope("update_metrics"):
            batch = self._batch(labels, logits, features)
            return self._updated(eval_metrics, batch, regularization_losses)

    def _updated(
        self, metrics: dict[str, Any], batch: Batch, regularization_losses: Sequence[Any] | None
    ) -> dict[str, Any]:
        def update(key: str, *args: Any, weights: Any = batch.weights) -> None:
            metrics[self._summary_key(key)].update_state(*args, sample_weight=weights)

        update(MetricKeys.LOSS_MEAN, batch.losses)
        self._update_metrics(update, batch)
        regularization = losses.regularization_loss(regularization_losses)
        if regularization is not None:
            update(MetricKeys.LOSS_REGULARIZATION, regularization, weights=None)
        return metrics

    def _batch(self, labels: Any, logits: Any, features: Any) -> Batch:
        logits = checked_logits(logits, self.logits_dimension)
        labels = self._processed_labels(logits, labels)
        each, weights = self._unweighted_loss_and_weights(logits, labels, features)
        return Batch(logits, labels, each, weights)

    # Heads in the wild that inherit from ours make a loss and predictions of their own with these.
    @property
    def _label_vocabulary(self) -> tuple[str, ...] | None:
        return getattr(self, "label_vocabulary", None)

    def _processed_labels(self, logits: tf.Tensor, labels: Any) -> tf.Tensor:
        return self._usable_labels(labels, logits)

    def _unweighted_loss_and_weights(
        self, logits: tf.Tensor, processed_labels: tf.Tensor, features: Any
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        if self._loss_fn is None:
            each = self._losses(processed_labels, logits)
        else:
            each = losses.call_loss_fn(
                self._loss_fn,
                processed_labels,
                logits,
                features,
                self._loss_reduction,
                self._loss_dimension,
            )
        weights = weights_for(
            features, self._weight_column, logits, per_logit=self._weights_per_logit
        )
        return each, weights

    @abc.abstractmethod
    def _usable_labels(self, labels: Any, logits: tf.Tensor) -> tf.Tensor:
        """Labels as numbers, in the shape of the losses."""

    @abc.abstractmethod
    def _losses(self, labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
        """One loss per example, or per logit, before weights."""

    @abc.abstractmethod
    def _metrics(self) -> dict[str, Any]:
        """Metric objects by key, in addition to the mean of the loss."""

    @abc.abstractmethod
    def _update_metrics(self, update: Callable[..., None], batch: Batch) -> None:
        """Call `update(key, ...)` for each of them."""


def wanted_keys(given: Sequence[str] | None, valid: Sequence[str]) -> Sequence[str]:
    """The prediction keys that were asked for; all, if none."""
    for key in given or ():
        if key not in valid:
            raise HeadError(
                f"Prediction key must be in PredictionKeys, given: {key}."
                f"Valid prediction keys include {list(valid)}."
            )
    return given or valid
