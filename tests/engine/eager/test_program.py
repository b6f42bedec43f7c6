"""Eager steps as the loop takes them, with a runner that only counts."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf

from estimand.core.modes import ModeKeys
from estimand.engine.eager.program import EagerProgram, FirstStep
from estimand.engine.feeding.source import BatchSource
from estimand.engine.hook_calls.fetching import NOTHING, FetchPlan


def call(step: int) -> Any:
    return SimpleNamespace(
        mode=ModeKeys.TRAIN,
        spec=SimpleNamespace(loss=float(step)),
        step_now=lambda: step,
        as_default=contextlib.nullcontext,
    )


class Runner:
    """Stands for the model function: each call is one step."""

    def __init__(self) -> None:
        self.batches: list[Any] = []
        self.counted = 0
        self.draws = SimpleNamespace(advance=self.count)

    def count(self) -> None:
        self.counted += 1

    def run(self, features: Any, labels: Any) -> Any:
        if features == "the end":
            raise StopIteration
        self.batches.append(features)
        return call(len(self.batches))


class Session:
    def __init__(self) -> None:
        self.trace = call(0)

    def move_on_to(self, trace: Any) -> None:
        self.trace = trace

    def fetched_with_step(self, fetch: Any) -> Any:
        return f"{fetch} of step {self.trace.step_now()}"


class Feeder(BatchSource):
    def __init__(self, *batches: Any) -> None:
        super().__init__(len(batches))
        self.left = list(batches)

    def next_batch(self) -> list[Any]:
        if not self.left:
            raise tf.errors.OutOfRangeError(None, None, "end of sequence")
        self.took()
        return [self.left.pop(0)]


def program(runner: Runner, first: FirstStep | None = None) -> EagerProgram:
    spec = (tf.TensorSpec([]), None)
    return EagerProgram(runner, Session(), spec, first)  # type: ignore[arg-type]


def test_block_is_so_many_calls() -> None:
    runner, feeder = Runner(), Feeder("a", "b", "c")
    assert program(runner).loop(feeder, 2) == (2.0, 2)  # type: ignore[arg-type]
    assert runner.batches == ["a", "b"] and runner.counted == feeder.batches == 2


def test_step_gives_what_hooks_fetch_of_it_and_the_batch() -> None:
    plan = FetchPlan((), ("loss", "w"), lambda reads, values: list(values))
    done = program(Runner()).step(Feeder("a"), plan, keep_batch=True)  # type: ignore[arg-type]
    assert done.fetched == ["loss of step 1", "w of step 1"]
    assert done.batch == ["a"] and done.global_step == 1


def test_first_step_is_put_in_place_and_its_batch_counted_then() -> None:
    runner, feeder = Runner(), Feeder("b")
    eager = program(runner, FirstStep(["a"], lambda: call(1)))  # type: ignore[list-item]
    done = eager.step(feeder, NOTHING, keep_batch=True)  # type: ignore[arg-type]
    assert done.batch == ["a"] and feeder.batches == 1 and runner.batches == []
    eager.loop(feeder, 1)  # type: ignore[arg-type]
    assert runner.batches == ["b"] and feeder.batches == 2


def test_end_of_the_input_is_that_of_the_feeder() -> None:
    with pytest.raises(tf.errors.OutOfRangeError):
        program(Runner()).loop(Feeder("a"), 2)  # type: ignore[arg-type]


def test_model_function_that_runs_out_of_something_is_no_end_of_the_input() -> None:
    with pytest.raises(RuntimeError, match="model_fn raised StopIteration"):
        program(Runner()).loop(Feeder("the end"), 1)  # type: ignore[arg-type]
