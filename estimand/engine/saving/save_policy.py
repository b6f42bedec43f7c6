"""When to save: a decision about steps and seconds, with no files and no clock of its own."""

from __future__ import annotations

from dataclasses import dataclass

from estimand.engine.hook_calls.cadence import Cadence, Schedule


@dataclass(frozen=True)
class SavePolicy:
    """Before the first step, every so many steps or seconds after it, and after the last.

    What stays of the checkpoints is decided by `KeepPolicy`.

    >>> policy = SavePolicy(steps=100)
    >>> schedule = policy.schedule(start_step=30, now=0.0)
    >>> schedule.due_in(step=50, now=1.0), schedule.is_due(step=130, now=2.0)
    (80, True)

    Args:
      steps: how many steps lie between two checkpoints; or
      secs: how many seconds.
    """

    steps: int | None = None
    secs: float | None = None

    def __post_init__(self) -> None:
        self._cadence()  # which says what is wrong

    def schedule(self, start_step: int, now: float) -> Schedule:
        """When the next ones are due in a run that begins with a checkpoint."""
        return Schedule(self._cadence(), start_step, now)

    def _cadence(self) -> Cadence:
        return Cadence(self.steps, self.secs, at_start=False)
