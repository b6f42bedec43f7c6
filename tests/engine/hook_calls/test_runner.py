"""Calling hooks: in which order, with what, and when; on a model that is not there."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

import estimand as est
from estimand.engine.hook_calls.fetching import FetchPlan
from estimand.engine.hook_calls.runner import ALSO, HookRunner


class Session:
    """Gives for each fetch the fetch itself, and knows no graph."""

    def __init__(self) -> None:
        variables = SimpleNamespace(by_name={})
        self.graph = tf.Graph()
        self.trace = SimpleNamespace(
            variables=variables, as_default=self.entered, at_a_look=self.entered
        )
        self.fed: dict[Any, Any] = {}

    @contextlib.contextmanager
    def entered(self) -> Any:
        with self.graph.as_default():
            yield self.graph

    def plan(self, fetches: dict[int, Any]) -> FetchPlan:
        return FetchPlan((), tuple(tf.nest.flatten(fetches)), lambda reads, values: fetches)

    def feeds(self, feed_dict: dict[Any, Any]) -> tuple[list[Any], list[Any]]:
        self.fed = dict(feed_dict)
        return list(feed_dict), list(feed_dict.values())


class Noting(est.SessionRunHook):
    def __init__(self, name: str, told: list[Any], wants: Any = None, feed: Any = None) -> None:
        self.name, self.told, self.wants, self.feed = name, told, wants, feed

    def begin(self) -> None:
        self.told.append((self.name, "begin"))

    def after_create_session(self, session: Any, coord: Any) -> None:
        self.told.append((self.name, "created"))

    def before_run(self, run_context: Any) -> Any:
        self.told.append((self.name, "before"))
        return None if self.wants is None else est.SessionRunArgs(self.wants, self.feed)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        self.told.append((self.name, run_values.results))

    def end(self, session: Any) -> None:
        self.told.append((self.name, "end"))


class Now:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.time = 0.0

    def __call__(self) -> float:
        return self.time


def started(*hooks: Any, clock: Any = None) -> HookRunner:
    runner = HookRunner(hooks, Session(), clock or Now())  # type: ignore[arg-type]
    runner.begin()
    runner.after_create_session(0)
    return runner


def look(runner: HookRunner, step: int, within: int = 1) -> bool:
    """Whether anybody looked at the step after `step`."""
    seen = runner.before_run(step, within)
    if seen is None:
        return False
    assert seen.plan is not None
    runner.after_run(seen, seen.plan.rebuild((), ()), step + within)
    return True


def test_hooks_are_called_in_their_order_and_see_what_they_asked_for() -> None:
    told: list[Any] = []
    runner = started(Noting("a", told, "loss"), Noting("b", told), Noting("c", told, {"x": "y"}))
    assert look(runner, 0)
    runner.end()
    assert told == [
        *((name, "begin") for name in "abc"),
        *((name, "created") for name in "abc"),
        *((name, "before") for name in "abc"),
        ("a", "loss"), ("b", None), ("c", {"x": "y"}),
        *((name, "end") for name in "abc"),
    ]  # fmt: skip


def test_hook_with_a_cadence_is_called_when_it_is_due_only() -> None:
    told: list[Any] = []
    hook = Noting("a", told)
    hook.cadence = est.every(steps=10)  # type: ignore[attr-defined]
    runner = started(hook)
    assert runner.steps_to_next_look(0) == 1 and look(runner, 0)
    assert runner.steps_to_next_look(1) == 10
    assert not look(runner, 1, within=9) and look(runner, 1, within=10)
    assert runner.steps_to_next_look(11) == 10


def test_hook_that_goes_by_the_clock() -> None:
    clock = Now()
    hook = Noting("a", [])
    hook.cadence = est.every(secs=60)  # type: ignore[attr-defined]
    runner = started(hook, clock=clock)
    assert look(runner, 0) and runner.steps_to_next_look(1) is None
    clock.time = 61.0
    assert runner.steps_to_next_look(500) == 1 and look(runner, 500)


def test_what_is_fetched_beside_the_hooks_has_its_own_key() -> None:
    seen = started().before_run(0, 1, also=["prediction"])
    assert seen is not None and seen.plan is not None
    assert seen.plan.rebuild((), ()) == {ALSO: ["prediction"]}


def test_two_hooks_may_not_feed_the_same_tensor() -> None:
    first, second = (Noting(n, [], "loss", {"x:0": 1}) for n in "ab")
    with pytest.raises(RuntimeError, match="Same tensor is fed by two hooks: 'x:0'"):
        started(first, second).before_run(0, 1)


def test_hook_that_asks_to_stop_is_heard() -> None:
    class Stopping(est.SessionRunHook):
        def after_run(self, run_context: Any, run_values: Any) -> None:
            run_context.request_stop()

    runner = started(Stopping())
    assert look(runner, 0) and runner.stop_requested


def test_graph_counts_as_changed_by_a_hook_of_the_user_only() -> None:
    class Building(est.SessionRunHook):
        def begin(self) -> None:
            tf.constant(1.0)

    assert started(Building()).graph_changed
    assert not started(Noting("a", [])).graph_changed
