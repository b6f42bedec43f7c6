"""Seconds by kind: what counts for what, and what is noted."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from estimand.engine import time_spent
from estimand.engine.time_spent import (
    CHECKPOINTS,
    EVALUATION,
    EXPORTS,
    INPUT,
    LOOKS,
    STARTING,
    STEPS,
    TIME_FILE,
    TimeSpent,
)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_what_is_begun_inside_is_taken_out(clock: Clock) -> None:
    spent = TimeSpent(clock=clock)
    clock.now += 1
    with spent.on(STEPS):
        clock.now += 2
        with spent.on(LOOKS):
            clock.now += 4
            with spent.on(CHECKPOINTS):
                clock.now += 8
            clock.now += 16
        clock.now += 32
    clock.now += 64
    assert spent.seconds() == {STARTING: 65, STEPS: 34, LOOKS: 20, CHECKPOINTS: 8}
    assert sum(spent.seconds().values()) == clock.now - 100


def test_all_that_an_evaluation_does_is_evaluation(clock: Clock) -> None:
    spent = TimeSpent(clock=clock)
    with spent.on(CHECKPOINTS):
        clock.now += 1
        with spent.on(EVALUATION):
            with spent.on(STARTING):  # its tracing
                clock.now += 2
            with spent.on(LOOKS):  # of its hooks
                clock.now += 4
        with spent.on(EXPORTS), spent.on(STARTING):
            clock.now += 8
        clock.now += 16
    assert spent.seconds() == {STARTING: 0, CHECKPOINTS: 17, EVALUATION: 6, EXPORTS: 8}


def test_an_exception_leaves_its_kind(clock: Clock) -> None:
    spent = TimeSpent(clock=clock)
    with pytest.raises(KeyError), spent.on(STEPS), spent.on(LOOKS):
        clock.now += 1
        raise KeyError
    clock.now += 2
    assert spent.seconds() == {STARTING: 2, STEPS: 0, LOOKS: 1}


def test_waiting_is_taken_out_of_the_steps(clock: Clock) -> None:
    spent, waited = TimeSpent(clock=clock), [7.0]  # in an earlier call, of the same program
    spent.waits_are_noted_by(lambda: waited[0])
    with spent.on(STEPS):
        clock.now += 10
        waited[0] += 4
    assert spent.seconds() == {STARTING: 0, INPUT: 4, STEPS: 6}
    waited[0] += 100  # never more than there was
    assert spent.seconds() == {STARTING: 0, INPUT: 10, STEPS: 0}


def test_input_that_nobody_has_timed_is_unknown(clock: Clock) -> None:
    spent = TimeSpent(clock=clock)
    spent.waits_are_noted_by(lambda: None)
    with spent.on(STEPS):
        clock.now += 10
    assert INPUT not in spent.seconds()
    assert time_spent.waiting_share(spent.seconds()) is None
    assert not time_spent.is_input_bound(spent.seconds())


def test_what_calls_have_noted_adds_up(tmp_path: Path, clock: Clock) -> None:
    for _ in range(3):
        spent = TimeSpent(str(tmp_path), clock)
        with spent.on(STEPS):
            clock.now += 2
        spent.note()
        spent.note()  # again, of the same call
    assert time_spent.load(tmp_path) == {STARTING: 0, STEPS: 6}


def test_a_killed_run_has_noted_its_time_at_a_checkpoint(tmp_path: Path, clock: Clock) -> None:
    spent = TimeSpent(str(tmp_path), clock)
    for _ in range(3):
        with spent.on(STEPS):
            clock.now += 4
        with spent.on(CHECKPOINTS):
            clock.now += 1
    assert time_spent.load(tmp_path) == {STARTING: 0, STEPS: 8, CHECKPOINTS: 2}  # not the last


@pytest.mark.parametrize("text", ["", "[]", '{"seconds": 3}', '{"seconds": {"steps": "x"}}'])
def test_damaged_notes_are_none(text: str, tmp_path: Path) -> None:
    (tmp_path / TIME_FILE).write_text(text)
    assert time_spent.load(tmp_path) == {}


def test_only_the_thread_that_trains_counts() -> None:
    def elsewhere() -> None:
        with time_spent.on(EVALUATION):
            pass

    with time_spent.counted(None) as spent:
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        assert list(spent.seconds()) == [STARTING]
        with time_spent.counted(None) as inner, time_spent.on(LOOKS):
            pass
        assert list(spent.seconds()) == [STARTING] and LOOKS in inner.seconds()
    with time_spent.on(EVALUATION):
        pass
    assert list(spent.seconds()) == [STARTING]


def test_no_place_to_note_it_is_no_error(tmp_path: Path, clock: Clock) -> None:
    TimeSpent(str(tmp_path / "gone"), clock).note()
