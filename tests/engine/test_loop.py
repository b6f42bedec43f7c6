"""The training loop by itself: blocks, looks and ends, with a program that only counts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
import tensorflow as tf

from estimand.core.errors import ModelFnError
from estimand.engine.distributed.team import Team
from estimand.engine.running.interrupts import Interrupts
from estimand.engine.running.loop import TrainingLoop


@dataclass
class Trace:
    """A model whose step does nothing but count."""

    step: int = 0
    increment: int = 1
    stop: Any = None

    def step_now(self) -> int:
        return self.step


@dataclass
class Feeder:
    """An input of so many batches; None: endless."""

    size: int | None = None
    batches: int = 0
    left_over: int = 0
    replicas: int = 1

    @property
    def remaining(self) -> int | None:
        return None if self.size is None else self.size - self.batches


@dataclass
class Done:
    result: float
    global_step: int
    fetched: dict[int, Any]
    batch: list[Any]


@dataclass
class Program:
    """Notes what it was asked for: ("block", steps) or "look"."""

    trace: Trace
    ends_unexpectedly_at: int | None = None
    calls: list[Any] = field(default_factory=list)

    def loop(self, feeder: Feeder, steps: int) -> tuple[float, int]:
        self.calls.append(("block", steps))
        for _ in range(steps):
            self._step(feeder)
        return 0.5, self.trace.step

    def step(self, feeder: Feeder, plan: Any, *feeds: Any, keep_batch: bool) -> Done:
        self.calls.append("look")
        self._step(feeder)
        return Done(0.5, self.trace.step, {}, ["the batch"] if keep_batch else [])

    def last_result(self) -> float:
        return 0.25

    def _step(self, feeder: Feeder) -> None:
        if self.trace.step == self.ends_unexpectedly_at:
            raise tf.errors.OutOfRangeError(None, None, "end of sequence")
        self.trace.step += self.trace.increment
        feeder.batches += 1


@dataclass
class Hooks:
    """Looks every so many steps, as a runner of hooks does."""

    every: int | None = None
    hooks: tuple[Any, ...] = ()
    bound: tuple[Any, ...] = ()
    stop_requested: bool = False
    told: list[Any] = field(default_factory=list)

    def begin(self) -> None:
        self.told.append("begin")

    def after_create_session(self, step: int) -> None:
        self.told.append(("created", step))

    def steps_to_next_look(self, step: int) -> int | None:
        return None if self.every is None else self.every - step % self.every

    def before_run(self, step: int, within: int) -> Any:
        return None

    def after_run(self, look: Any, fetched: Any, step: int) -> None:
        raise AssertionError("nobody looked")

    def end(self) -> None:
        self.told.append("end")


def made(trace: Trace, program: Program, feeder: Feeder, hooks: Hooks, **options: Any) -> Any:
    options = {"target_step": None, "max_steps_per_call": 100, **options}
    return TrainingLoop(
        trace,  # type: ignore[arg-type]
        program,  # type: ignore[arg-type]
        feeder,  # type: ignore[arg-type]
        hooks,  # type: ignore[arg-type]
        model_dir=None,
        save_checkpoint=lambda step: "",
        interrupts=options.pop("interrupts", Interrupts()),
        on_block=options.pop("on_block", lambda step, loss: None),
        team=Team(),
        **options,
    )


@pytest.fixture
def parts() -> tuple[Trace, Program, Feeder, Hooks]:
    trace = Trace()
    return trace, Program(trace), Feeder(), Hooks()


def steps_of(calls: list[Any]) -> int:
    return sum(1 if call == "look" else call[1] for call in calls)


def test_it_ends_with_the_target_in_blocks_after_a_first_step_by_itself(parts) -> None:
    trace, program, feeder, hooks = parts
    loop = made(*parts, target_step=250)
    loop.run()
    assert trace.step == loop.global_step() == feeder.batches == 250
    assert program.calls[0] == ("block", 1)  # it shows how long one takes
    assert max(steps for _, steps in program.calls) == 100  # as many as a call may take
    assert hooks.told == ["begin", ("created", 0), "end"]
    assert loop.last_loss == 0.5


def test_a_block_ends_where_a_hook_wants_to_look(parts) -> None:
    _, program, _, hooks = parts
    hooks.every = 40
    made(*parts, target_step=100).run()
    ends, reached = [], 0
    for call in program.calls:
        reached += 1 if call == "look" else call[1]
        ends += [reached] if call == "look" else []
    assert ends == [40, 80]


def test_known_end_of_the_input(parts) -> None:
    trace, _, feeder, hooks = parts
    feeder.size = 30
    made(*parts, target_step=100).run()
    assert trace.step == 30 and hooks.told[-1] == "end"


def test_unexpected_end_of_the_input_counts_what_was_done_before(parts) -> None:
    trace, program, _, hooks = parts
    program.ends_unexpectedly_at = 17
    changes: list[int] = []
    loop = made(*parts, target_step=100, on_change=lambda: changes.append(trace.step))
    loop.run()
    assert loop.global_step() == 17 and changes[-1] == 17
    assert loop.last_loss == 0.25 and hooks.told[-1] == "end"


@pytest.mark.parametrize("who", ["a hook", "the loop", "a signal"])
def test_who_may_stop_it(parts, who: str) -> None:
    trace, _, _, hooks = parts
    interrupts = Interrupts()

    def stop(step: int, loss: Any) -> None:
        if who == "a hook":
            hooks.stop_requested = True
        elif who == "the loop":
            loop.request_stop("enough")
        else:
            interrupts.received = 15

    loop = made(*parts, target_step=100, interrupts=interrupts, on_block=stop)
    loop.run()
    assert trace.step == 1 and hooks.told[-1] == "end"


def test_first_batch_is_handed_to_who_waits_for_it_once(parts) -> None:
    batches: list[Any] = []
    made(*parts, target_step=100, after_begin=lambda: batches.append).run()
    assert batches == [["the batch"]]


def test_steps_that_move_the_global_step_by_two(parts) -> None:
    trace, program, _, hooks = parts
    trace.increment, hooks.every = 2, 10
    made(*parts, target_step=40).run()
    assert trace.step == 40 and steps_of(program.calls) == 20


def test_step_that_never_moves_is_an_error_in_the_end(parts) -> None:
    trace, _, _, _ = parts
    trace.increment = 0
    with pytest.raises(ModelFnError, match="did not advance the global step"):
        made(*parts, target_step=100).run()
