"""How canned models are trained: which optimizer, which head, what the loss is scaled by."""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from estimand.canned.optimizers import choose_optimizer, choose_v1_optimizer
from estimand.canned.optimizers.v1 import V1Naming
from estimand.heads import RegressionHead


@dataclass(frozen=True)
class OptimizerChoice:
    """What the user gave as optimizer, and what it means if it is a name."""

    given: Any
    learning_rate: float | None = None
    naming: V1Naming | None = None
    v1: bool = False  # names mean the optimizers of tf.compat.v1.train

    def make(self, *, counts_own_updates: bool = False) -> Any:
        """The optimizer, made anew: callables are called inside the model function."""
        if self.v1 and self.learning_rate is not None:
            return choose_v1_optimizer(self.given, self.learning_rate, self.naming or V1Naming())
        optimizer = choose_optimizer(self.given, self.learning_rate, self.naming)
        if counts_own_updates and hasattr(optimizer, "counts_own_updates"):
            optimizer = copy.copy(optimizer)
            optimizer.counts_own_updates = True
        return optimizer


def regression_head(label_dimension: int, weight_column: Any, loss_reduction: Any) -> Any:
    """The head for numbers."""
    return RegressionHead(
        label_dimension=label_dimension,
        weight_column=weight_column,
        loss_reduction=loss_reduction,
    )


def scope_of_head(part: str, v1: bool) -> contextlib.AbstractContextManager[Any]:
    """Where the head's operations are: in v1 inside the scope of the model, as `dnn/head/...`."""
    return tf.compat.v1.name_scope(part) if v1 else contextlib.nullcontext()


def rate_for_columns(highest: float, columns: Sequence[Any]) -> float:
    """The more columns share in the logits, the smaller the steps of each."""
    return min(highest, 1.0 / math.sqrt(len(columns))) if columns else highest
