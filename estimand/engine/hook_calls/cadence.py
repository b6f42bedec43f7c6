"""When each hook next wants to look, and so how many steps the next block may take."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from estimand.core.errors import ConfigError


@dataclass(frozen=True)
class Cadence:
    """How often a hook looks: every so many steps, or every so many seconds.

    The first look is at the first step, unless `at_start` is False: then one period later. With
    `aligned`, looks are at multiples of `steps`, wherever the run began.
    """

    steps: int | None = None
    secs: float | None = None
    at_start: bool = True
    aligned: bool = False

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.secs is None):
            raise ConfigError(
                f"A cadence is either steps or secs, got steps={self.steps}, secs={self.secs}. "
                "Write est.every(steps=100) or est.every(secs=60)."
            )
        if (self.steps is not None and self.steps < 1) or (self.secs is not None and self.secs < 0):
            raise ConfigError(
                f"A cadence must be positive, got steps={self.steps}, secs={self.secs}."
            )


def every(steps: int | None = None, *, secs: float | None = None, at_start: bool = True) -> Cadence:
    """Declare how often a hook looks, so that the steps in between run at full speed.

    Args:
      steps: steps between two looks.
      secs: seconds between two looks.
      at_start: whether to look at the first step, too.

    >>> import estimand as est
    >>> class PrintLoss(est.SessionRunHook):
    ...     cadence = est.every(steps=100)
    ...     def before_run(self, run_context):
    ...         return est.SessionRunArgs({"loss": "loss:0"})
    ...     def after_run(self, run_context, run_values):
    ...         print(run_values.results["loss"])
    """
    return Cadence(steps, secs, at_start)


NEVER = "never"
"""A hook with this cadence has no before_run/after_run to call."""


class Schedule:
    """The state of one hook's cadence during a run."""

    def __init__(self, cadence: Any, start_step: int, now: float) -> None:
        self._cadence: Cadence | None = cadence if isinstance(cadence, Cadence) else None
        self._never = cadence == NEVER
        self._last_step = start_step
        self._last_time = now
        self._looked = self._cadence is not None and not self._cadence.at_start

    def due_in(self, step: int, now: float) -> int | None:
        """In how many steps the hook wants to look; None: not before some time has passed."""
        if self._never:
            return None
        if self._cadence is None or not self._looked:
            return 1
        if self._cadence.steps is not None:
            period = self._cadence.steps
            from_step = self._last_step
            if self._cadence.aligned:
                from_step -= from_step % period
            return max(1, from_step + period - step)
        assert self._cadence.secs is not None
        return 1 if now >= self._last_time + self._cadence.secs else None

    def is_due(self, step: int, now: float) -> bool:
        """Whether the time has come, at `step`; of a cadence whose first look was at the start."""
        assert self._cadence is not None
        if self._cadence.steps is not None:
            return step >= self._last_step + self._cadence.steps
        return self.due_in(step, now) is not None

    def looked(self, step: int, now: float) -> None:
        self._looked, self._last_step, self._last_time = True, step, now
