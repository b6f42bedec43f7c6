"""When a hook looks."""

from __future__ import annotations

import pytest

from estimand.core.errors import ConfigError
from estimand.engine.hook_calls.cadence import Cadence, Schedule


def looks(cadence: Cadence, start: int, until: int) -> list[int]:
    schedule = Schedule(cadence, start, now=0.0)
    step, found = start, []
    while True:
        due = schedule.due_in(step, now=0.0)
        assert due is not None
        step += due
        if step > until:
            return found
        found.append(step)
        schedule.looked(step, now=0.0)


def test_steps_count_from_the_start() -> None:
    assert looks(Cadence(4, at_start=False), start=3, until=12) == [7, 11]
    assert looks(Cadence(4), start=3, until=12) == [4, 8, 12]


def test_aligned_steps_count_from_zero() -> None:
    assert looks(Cadence(4, at_start=False, aligned=True), start=3, until=12) == [4, 8, 12]
    assert looks(Cadence(4, aligned=True), start=5, until=14) == [6, 8, 12]


def test_aligned_look_that_was_missed_comes_late_and_the_next_on_time() -> None:
    schedule = Schedule(Cadence(4, at_start=False, aligned=True), 0, now=0.0)
    schedule.looked(5, now=0.0)  # a step may move the count by more than one
    assert schedule.due_in(5, now=0.0) == 3


def test_neither_or_both_are_refused() -> None:
    for arguments in ((None, None), (1, 1.0)):
        with pytest.raises(ConfigError, match="either steps or secs"):
            Cadence(*arguments)
