"""The head that fits a number of classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from estimand.core.errors import HeadError
from estimand.heads.binary_class import BinaryClassHead
from estimand.heads.losses import SUM_OVER_BATCH_SIZE
from estimand.heads.multi_class import MultiClassHead
from estimand.heads.single import SingleHead


def binary_or_multi_class_head(
    n_classes: int,
    weight_column: Any = None,
    label_vocabulary: Sequence[str] | None = None,
    loss_reduction: Any = SUM_OVER_BATCH_SIZE,
) -> SingleHead:
    """`BinaryClassHead` for two classes, `MultiClassHead` for more.

    Args:
      n_classes: how many classes there are.
      weight_column: name of the feature, or numeric column, that weighs examples.
      label_vocabulary: the words that labels are, in the order of the class numbers.
      loss_reduction: "sum_over_batch_size", which is the mean, or "sum".

    >>> binary_or_multi_class_head(2).logits_dimension
    1
    >>> binary_or_multi_class_head(3).logits_dimension
    3
    """
    return head_for_classes(
        n_classes,
        BinaryClassHead,
        MultiClassHead,
        weight_column=weight_column,
        label_vocabulary=label_vocabulary,
        loss_reduction=loss_reduction,
    )


def head_for_classes(
    n_classes: int,
    binary: Callable[..., SingleHead],
    several: Callable[..., SingleHead],
    **settings: Any,
) -> SingleHead:
    """What `binary` makes of `settings` for two classes, and `several` for more."""
    if n_classes == 2:
        return binary(**settings)
    if isinstance(n_classes, int) and n_classes < 2:
        raise HeadError(
            f"n_classes must be 2 or more, given: {n_classes}. Labels of yes and no are two "
            "classes: n_classes=2. To predict a number, use a regressor, such as est.DNNRegressor."
        )
    return several(n_classes, **settings)
