"""Heads that evaluate as those inside of the canned models of `tf.compat.v1.estimator` did."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from estimand.heads.base import Head
from estimand.heads.binary_class import BinaryClassHead
from estimand.heads.choice import binary_or_multi_class_head


class V1BinaryClassHead(BinaryClassHead):
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
    if n_classes != 2:
        return binary_or_multi_class_head(
            n_classes, weight_column, label_vocabulary, loss_reduction
        )
    return V1BinaryClassHead(
        weight_column=weight_column,
        label_vocabulary=label_vocabulary,
        loss_reduction=loss_reduction,
    )
