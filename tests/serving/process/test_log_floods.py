"""A client that causes one error all the time must not fill the log."""

from __future__ import annotations

import logging

import pytest

from estimand.serving.process.log_floods import Floods, limited


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO)
    return caplog


def attached(clock: Clock) -> tuple[logging.Logger, Floods]:
    log = logging.getLogger("tests.floods")
    log.filters.clear()
    floods = Floods(most=3, seconds=60.0, clock=clock)
    log.addFilter(floods)
    return log, floods


def test_one_error_is_told_a_few_times_and_then_counted(told) -> None:
    clock = Clock()
    log, floods = attached(clock)

    def fail() -> None:
        try:
            raise RuntimeError("the same")
        except RuntimeError:
            log.exception("%s failed", "predict")

    for _ in range(1000):
        fail()
    assert told.messages == ["predict failed"] * 3
    clock.now = 61.0
    floods.tell_counts()
    count = "997 more like this within 61 s: predict failed (RuntimeError: the same)"
    assert told.messages[3:] == [count]
    fail()
    assert told.messages[4:] == ["predict failed"]


def test_errors_that_differ_are_told_each_up_to_a_number_for_one_place(told) -> None:
    log, floods = attached(Clock())
    for number in range(1000):
        log.error("model %d cannot be loaded", number)
    assert told.messages == [f"model {number} cannot be loaded" for number in range(30)]
    log.error("from another place")
    assert told.messages[-1] == "from another place"
    floods.tell_counts(at_once=True)
    assert "970 more like this within 0 s: model %d cannot be loaded" in told.messages


def test_what_is_remembered_is_bounded(told) -> None:
    log, floods = attached(Clock())
    for number in range(5000):
        log.warning("%d", number)
    assert len(floods._told) < 2000
    floods.tell_counts(at_once=True)
    assert told.messages[30] == "4970 more like this within 0 s: %d"


def test_the_filter_goes_when_the_server_ends(told) -> None:
    log = logging.getLogger("tests.limited")
    with limited(("tests.limited",)):
        for _ in range(7):
            log.warning("again")
        assert len(told.messages) == 5
    assert told.messages[-1] == "2 more like this within 0 s: again"
    log.warning("again")
    assert told.messages[-1] == "again"
