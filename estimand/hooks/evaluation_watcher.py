"""A hook that hears of evaluations, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from estimand.hooks.base import LoopHook


class EvaluationWatcher(LoopHook):
    """Given among the hooks of a TrainSpec, `train_and_evaluate` tells it of each evaluation.

    In a cluster that has an evaluator of its own, the training process evaluates nothing, and
    there is nothing to tell.
    """

    def opened(self) -> None:
        """`train_and_evaluate` begins: after the training there is more to come."""

    def evaluated(self, name: str | None, metrics: Mapping[str, Any]) -> bool:
        """The results by the EvalSpec of that name; True asks the training to stop."""
        return False

    def closed(self, error: BaseException | None) -> None:
        """Everything is done, exports included; or it ended by an error."""
