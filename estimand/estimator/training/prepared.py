"""A run that is ready: what `run` takes, however it was made."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from estimand.engine.checkpoints.saving import ModelSaver
from estimand.engine.feeding.feeder import InputPosition
from estimand.engine.running.interrupts import Interrupts
from estimand.estimator.training.begun import Begun


@dataclass(frozen=True)
class Wishes:
    """What the caller of `train` asked for."""

    hooks: Sequence[Any]
    saving_listeners: Sequence[Any]
    steps: int | None
    max_steps: int | None

    def target(self, start_step: int) -> int | None:
        """The step to end with, None: when the input does."""
        return self.max_steps if self.steps is None else start_step + self.steps


class Ended(Protocol):
    """What a loop says after its last step."""

    last_loss: Any

    def global_step(self) -> int: ...


@dataclass(frozen=True, kw_only=True)
class Prepared(abc.ABC):
    """Variables filled, input at its place, nothing run.

    Args:
      latest: the checkpoint whose values are in place; None: those of the start.
      session: what a Scaffold's and a saver's functions see.
      position: saves the place in the input beside checkpoints; None: it is not saved.
    """

    begun: Begun
    latest: str | None
    trace: Any
    session: Any
    position: InputPosition | None
    start_step: int

    @abc.abstractmethod
    def train(
        self,
        wishes: Wishes,
        target: int | None,
        saver: ModelSaver,
        interrupts: Interrupts,
        on_block: Callable[[int, Any], None],
    ) -> Ended:
        """Run all steps."""
