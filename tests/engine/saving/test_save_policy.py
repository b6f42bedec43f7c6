"""When checkpoints are due, as numbers alone."""

from __future__ import annotations

import pytest

from estimand.core.errors import ConfigError
from estimand.engine.saving.save_policy import SavePolicy


def saved_at(policy: SavePolicy, start: int, steps: int, seconds_per_step: float = 1.0) -> list:
    """The steps at which a run saves that looks after each step, from its beginning on."""
    schedule = policy.schedule(start, 0.0)
    saved = [start]
    for step in range(start + 1, start + steps + 1):
        now = (step - start) * seconds_per_step
        if schedule.is_due(step, now):
            saved.append(step)
            schedule.looked(step, now)
    return saved


@pytest.mark.parametrize("start", [0, 30])
def test_steps_count_from_where_the_run_began(start: int) -> None:
    assert saved_at(SavePolicy(steps=4), start, 10) == [start, start + 4, start + 8]


def test_seconds_count_from_the_last_checkpoint() -> None:
    assert saved_at(SavePolicy(secs=10), 0, 9, seconds_per_step=4) == [0, 3, 6, 9]


def test_block_may_go_up_to_the_next_checkpoint() -> None:
    schedule = SavePolicy(steps=100).schedule(start_step=30, now=0.0)
    assert [schedule.due_in(step, 0.0) for step in (30, 50, 129)] == [100, 80, 1]
    schedule.looked(64, 0.0)  # one that was taken out of turn
    assert schedule.due_in(64, 0.0) == 100


def test_step_that_leapt_beyond_is_due() -> None:
    """A train_op may count by more than one."""
    schedule = SavePolicy(steps=100).schedule(start_step=0, now=0.0)
    assert not schedule.is_due(99, 0.0)
    assert schedule.is_due(130, 0.0) and schedule.due_in(130, 0.0) == 1


def test_by_the_clock_no_step_is_known_at_which_one_is_due() -> None:
    schedule = SavePolicy(secs=60).schedule(start_step=0, now=5.0)
    assert schedule.due_in(1, 64.9) is None and not schedule.is_due(1, 64.9)
    assert schedule.due_in(2, 65.0) == 1 and schedule.is_due(2, 65.0)


@pytest.mark.parametrize("wrong", [{}, {"steps": 1, "secs": 1.0}, {"steps": 0}, {"secs": -1.0}])
def test_what_says_not_when_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=r"steps.*secs"):
        SavePolicy(**wrong)  # type: ignore[arg-type]
