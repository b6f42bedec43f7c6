"""How many steps one call may run, so that there is news in time."""

from __future__ import annotations

# A call is kept about this short, so that signals, time-based hooks, the live line and the log
# are served in time; at this length the cost of a call no longer shows.
_SECONDS_PER_CALL = 0.5
# What was measured may be of batches that lay ready, so a call grows from the one before it.
_GROWTH = 4


class Pace:
    """Steps per call, by how long the last call took.

    The first step runs by itself. It includes compiling, so a second one may do so, too.

    >>> pace = Pace()
    >>> for seconds_per_step in (3.0, 0.001, 0.001, 0.1):
    ...     steps = pace.steps_per_call
    ...     pace.note(steps * seconds_per_step, steps)
    ...     print(steps, end=" ")
    1 1 4 16
    >>> pace.steps_per_call
    5
    """

    def __init__(self) -> None:
        self.steps_per_call = 1

    def note(self, seconds: float, steps: int) -> None:
        """A call of `steps` steps took so long."""
        most = max(_GROWTH * steps, self.steps_per_call)  # a call may be short for other reasons
        fitting = int(_SECONDS_PER_CALL * steps / seconds) if seconds > 0 else most
        self.steps_per_call = max(1, min(most, fitting))
