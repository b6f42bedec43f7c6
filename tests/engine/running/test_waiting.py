"""The stopwatch for input: all calls, or one of several."""

from __future__ import annotations

import pytest
import tensorflow as tf

from estimand.engine.feeding.supply import Supply, repeating
from estimand.engine.running import waiting
from estimand.engine.running.waiting import Waiting


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def supply() -> Supply:
    return Supply("iterator", [], [], lambda given, number: [], 1, waits=True)


def call(stopwatch: Waiting, clock: Clock, *, seconds: float, waits: float, steps: int) -> bool:
    """A call that waits so long; whether it was timed."""
    timed = stopwatch.is_due(supply(), at_once=False)
    with stopwatch.around_call(steps, timed=timed):
        clock.now += seconds
        if timed:
            stopwatch._inside.assign_add(waits)
    return timed


def test_slow_steps_are_always_timed() -> None:
    clock = Clock()
    stopwatch = Waiting(clock=clock)
    assert all(call(stopwatch, clock, seconds=1, waits=0.25, steps=100) for _ in range(20))
    assert stopwatch.seconds() == pytest.approx(5)


def test_of_short_steps_one_call_of_several_stands_for_the_others() -> None:
    clock = Clock()
    stopwatch = Waiting(clock=clock)
    timed = [call(stopwatch, clock, seconds=1, waits=0.25, steps=100_000) for _ in range(28)]
    assert timed == [True] * 3 + ([True] + [False] * 8) * 2 + [True] + [False] * 6
    assert stopwatch.seconds() == pytest.approx(0.25 * 28)


def test_steps_that_are_no_longer_short_are_timed_again() -> None:
    clock = Clock()
    stopwatch = Waiting(clock=clock)
    for _ in range(5):
        call(stopwatch, clock, seconds=1, waits=0, steps=100_000)
    assert not call(stopwatch, clock, seconds=1, waits=1, steps=10)
    assert call(stopwatch, clock, seconds=1, waits=1, steps=10)


def test_what_does_not_wait_or_is_not_wanted_is_not_timed() -> None:
    assert not Waiting().is_due(repeating([], 1), at_once=True)
    assert not Waiting(wanted=False).is_due(supply(), at_once=True)
    assert Waiting().is_due(supply(), at_once=True)


def test_inside_of_a_function_the_time_of_the_taking_is_noted() -> None:
    def slow() -> tf.Tensor:
        waiting.time.sleep(0.05)
        return tf.constant(3.0)

    stopwatch = Waiting()

    @tf.function(autograph=False)
    def run() -> tf.Tensor:
        def take() -> list[tf.Tensor]:
            taken = tf.py_function(slow, [], tf.float32)
            taken.set_shape([])
            return [taken]

        return stopwatch.timed(take)[0] + 1

    assert float(run()) == 4
    assert stopwatch.seconds() >= 0.05
