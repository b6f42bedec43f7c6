"""A run that is ready: what `run` takes, however it was made."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from estimand.engine.distribution import Team
from estimand.engine.feeding.feeder import InputPosition
from estimand.engine.feeding.source import BatchSource
from estimand.engine.hook_calls.runner import HookSession
from estimand.engine.running.ready_run import OnFirstBatch, Program
from estimand.engine.tracing.built_model import BuiltModel
from estimand.estimator.training.starting_point import StartingPoint


@dataclass(frozen=True)
class TrainArguments:
    """What the caller of `train` asked for."""

    hooks: Sequence[Any]
    saving_listeners: Sequence[Any]
    steps: int | None
    max_steps: int | None

    def target(self, start_step: int) -> int | None:
        """The step to end with, None: when the input does."""
        return self.max_steps if self.steps is None else start_step + self.steps


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """Variables filled, input at its place, nothing run: what the loop knows as a `ReadyRun`.

    Args:
      latest: the checkpoint whose values are in place; None: those of the start.
      program: takes the steps.
      session: what hooks, a Scaffold's and a saver's functions see.
      position: saves the place in the input beside checkpoints; None: it is not saved.
      max_steps_per_call: at most so many steps between two looks at signals; None: by the clock.
    """

    start: StartingPoint
    latest: str | None
    program: Program[Any]
    session: HookSession
    feeder: BatchSource
    position: InputPosition | None
    start_step: int
    max_steps_per_call: int | None

    @property
    def trace(self) -> BuiltModel:
        return self.program.trace

    @property
    def team(self) -> Team:
        return self.start.distribution.team

    def mark_changed(self) -> None:
        self.start.workspace.live.store.mark_changed()

    def changes(self) -> int | None:
        return None

    def hooks_have_begun(self, hooks: Sequence[Any], target: int | None) -> list[OnFirstBatch]:
        """The rest of what has to be decided before the first step, for hooks may have added to
        the graph; and what is to be done with its batch."""
        del hooks, target
        return []

    def tell_failure(self) -> None:
        """A step has failed: say what may have been the reason."""
