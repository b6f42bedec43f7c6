"""Heads that evaluate and write summaries as those of `tf.compat.v1.estimator` did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from estimand.heads.base import Head
from estimand.heads.binary_class import BinaryClassHead
from estimand.heads.choice import head_for_classes
from estimand.heads.keys import MetricKeys
from estimand.heads.losses import over_batch, reduced_loss
from estimand.heads.multi_class import MultiClassHead
from estimand.heads.regression import RegressionHead
from estimand.heads.single import Batch, SingleHead


class _WritesMeanLoss(SingleHead):
    """A loss that is a sum also writes its mean, which batches of any size can share."""

    def _summarise(self, batch: Batch) -> None:
        if over_batch(self.loss_reduction) == "sum":
            mean = reduced_loss(batch.losses, batch.weights, "weighted_mean")
            with tf.compat.v1.name_scope(None):
                tf.compat.v1.summary.scalar(self._summary_key(MetricKeys.LOSS_MEAN), mean)


class V1MultiClassHead(_WritesMeanLoss, MultiClassHead):
    """For more than two classes."""


class V1RegressionHead(_WritesMeanLoss, RegressionHead):
    """For numbers."""


class V1BinaryClassHead(_WritesMeanLoss, BinaryClassHead):
    """The area under the precision-recall curve was that of trapezoids, which is a bit more."""

    _auc_rule = "trapezoidal"


def v1_class_head(
    n_classes: int,
    weight_column: Any,
    label_vocabulary: Sequence[str] | None,
    loss_reduction: Any,
) -> Head:
    """The head that fits a number of classes.

    >>> v1_class_head(2, None, ["no", "yes"], "sum").label_vocabulary
    ('no', 'yes')
    """
    return head_for_classes(
        n_classes,
        V1BinaryClassHead,
        V1MultiClassHead,
        weight_column=weight_column,
        label_vocabulary=label_vocabulary,
        loss_reduction=loss_reduction,
    )


def v1_regression_head(label_dimension: int, weight_column: Any, loss_reduction: Any) -> Head:
    """The head for numbers.

    >>> v1_regression_head(2, None, "sum").logits_dimension
    2
    """
    return V1RegressionHead(
        label_dimension=label_dimension,
        weight_column=weight_column,
        loss_reduction=loss_reduction,
    )
