"""The training loop by itself: blocks, looks and ends, with a program that only counts."""

from __future__ import annotations

import contextlib
import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from estimand.core.errors import ModelFnError
from estimand.engine.distribution import Stop, Team
from estimand.engine.feeding.source import BatchSource
from estimand.engine.hook_calls.fetching import FetchPlan
from estimand.engine.hook_calls.runner import Look
from estimand.engine.interrupts import Interrupts
from estimand.engine.running.loop import TrainingLoop
from estimand.engine.saving.save_policy import SavePolicy
from estimand.engine.saving.taking import CheckpointTaker, NoCheckpoints


@dataclass
class Trace:
    """A model whose step does nothing but count."""

    step: int = 0
    increment: int = 1
    stop: Stop = field(default_factory=Stop)
    runs_eagerly = True  # so that there is no graph to be recorded

    def step_now(self) -> int:
        return self.step

    def as_default(self) -> Any:
        return contextlib.nullcontext()

    at_a_look = as_default


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
    looks_after_blocks: bool = False
    calls: list[Any] = field(default_factory=list)

    def loop(self, feeder: BatchSource, steps: int) -> tuple[float, int]:
        self.calls.append(("block", steps))
        for _ in range(steps):
            self._step(feeder)
        return 0.5, self.trace.step

    def step(self, feeder: BatchSource, plan: Any, *feeds: Any, keep_batch: bool) -> Done:
        self.calls.append("look")
        self._step(feeder)
        return Done(0.5, self.trace.step, {}, ["the batch"] if keep_batch else [])

    def fetch_after_block(self, plan: Any) -> Any:
        return (lambda loss, step: (loss, step)) if self.looks_after_blocks else None

    def last_result(self) -> float:
        return 0.25

    def _step(self, feeder: BatchSource) -> None:
        if self.trace.step == self.ends_unexpectedly_at:
            raise tf.errors.OutOfRangeError(None, None, "end of sequence")
        self.trace.step += self.trace.increment
        feeder.took()


@dataclass
class Hooks:
    """Looks every so many steps, as a runner of hooks does."""

    every: int | None = None
    hooks: tuple[Any, ...] = ()
    bound: tuple[Any, ...] = ()
    stop_requested: bool = False
    told: list[Any] = field(default_factory=list)
    session: Any = "the session"
    asked_earlier: bool = False

    def extending(self) -> Any:
        return contextlib.nullcontext()

    def begin(self) -> None:
        self.told.append("begin")

    def after_create_session(self, step: int) -> None:
        self.told.append(("created", step))

    def steps_to_next_look(self, step: int) -> int | None:
        return None if self.every is None else self.every - step % self.every

    def may_ask_earlier(self, step: int, within: int) -> bool:
        return self.asked_earlier

    def before_run(self, step: int, within: int) -> Any:
        return Look(plan=FetchPlan((), ("loss",), list)) if self.asked_earlier else None

    def after_run(self, look: Any, fetched: Any, step: int) -> None:
        assert self.asked_earlier, "nobody looked"
        self.told.append(("saw", fetched, step))

    def end(self) -> None:
        self.told.append("end")


@dataclass
class Run:
    """What the loop is given, ready to go."""

    program: Program
    feeder: BatchSource
    max_steps_per_call: int = 100
    team: Team = field(default_factory=Team)
    on_first_batch: list[Any] = field(default_factory=list)
    changed_at: list[int] = field(default_factory=list)

    def hooks_have_begun(self, hooks: list[Any], target: int | None) -> list[Any]:
        return self.on_first_batch

    def mark_changed(self) -> None:
        self.changed_at.append(self.program.trace.step)

    def changes(self) -> int:
        return len(self.changed_at)


def made(program: Program, feeder: BatchSource, hooks: Hooks, **options: Any) -> Any:
    run = options.pop("run", None) or Run(program, feeder)
    return TrainingLoop(
        run,
        hooks,  # type: ignore[arg-type]
        save_checkpoint=lambda step: "",
        **{
            "target_step": None,
            "checkpoints": NoCheckpoints(),
            "interrupts": Interrupts(),
            "on_block": lambda step, loss: None,
            **options,
        },
    )


@pytest.fixture
def parts() -> tuple[Trace, Program, BatchSource, Hooks]:
    trace = Trace()
    return trace, Program(trace), BatchSource(None), Hooks()


def steps_of(calls: list[Any]) -> int:
    return sum(1 if call == "look" else call[1] for call in calls)


def test_it_ends_with_the_target_in_blocks_after_a_first_step_by_itself(parts) -> None:
    trace, program, feeder, hooks = parts
    loop = made(*parts[1:], target_step=250)
    loop.run()
    assert trace.step == loop.global_step() == feeder.batches == 250
    assert program.calls[0] == ("block", 1)  # it shows how long one takes
    assert max(steps for _, steps in program.calls) == 100  # as many as a call may take
    assert hooks.told == ["begin", ("created", 0), "end"]
    assert loop.last_loss == 0.5


def test_a_block_ends_where_a_hook_wants_to_look(parts) -> None:
    _, program, _, hooks = parts
    hooks.every = 40
    made(*parts[1:], target_step=100).run()
    ends, reached = [], 0
    for call in program.calls:
        reached += 1 if call == "look" else call[1]
        ends += [reached] if call == "look" else []
    assert ends == [40, 80]


def test_look_that_the_loss_is_enough_for_is_no_step_by_itself(parts) -> None:
    _, program, _, hooks = parts
    hooks.every, hooks.asked_earlier, program.looks_after_blocks = 40, True, True
    made(*parts[1:], target_step=100).run()
    assert "look" not in program.calls
    assert [told for told in hooks.told if told[0] == "saw"] == [
        ("saw", (0.5, 40), 40),
        ("saw", (0.5, 80), 80),
    ]


def test_look_at_more_than_the_loss_is_a_step_by_itself(parts) -> None:
    _, program, _, hooks = parts
    hooks.every, hooks.asked_earlier = 40, True
    made(*parts[1:], target_step=100).run()
    assert program.calls.count("look") == 2


def test_known_end_of_the_input(parts) -> None:
    trace, _, feeder, hooks = parts
    feeder.size = 30
    made(*parts[1:], target_step=100).run()
    assert trace.step == 30 and hooks.told[-1] == "end"


def test_unexpected_end_of_the_input_counts_what_was_done_before(parts) -> None:
    _, program, feeder, hooks = parts
    program.ends_unexpectedly_at = 17
    run = Run(program, feeder)
    loop = made(*parts[1:], target_step=100, run=run)
    loop.run()
    assert loop.global_step() == 17 and run.changed_at[-1] == 17
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

    loop = made(*parts[1:], target_step=100, interrupts=interrupts, on_block=stop)
    loop.run()
    assert trace.step == 1 and hooks.told[-1] == "end"


def test_first_batch_is_handed_once_to_each_who_waits_for_it(parts) -> None:
    _, program, feeder, _ = parts
    batches: list[Any] = []
    run = Run(program, feeder, on_first_batch=[batches.append, batches.append])
    made(*parts[1:], target_step=100, run=run).run()
    assert batches == [["the batch"]] * 2


def test_steps_that_move_the_global_step_by_two(parts) -> None:
    trace, program, _, hooks = parts
    trace.increment, hooks.every = 2, 10
    made(*parts[1:], target_step=40).run()
    assert trace.step == 40 and steps_of(program.calls) == 20


def test_step_that_never_moves_is_an_error_in_the_end(parts) -> None:
    trace, _, _, _ = parts
    trace.increment = 0
    with pytest.raises(ModelFnError, match="did not advance the global step"):
        made(*parts[1:], target_step=100).run()


class Listener:
    """Notes what it hears; wants to stop at a step."""

    def __init__(self, told: list[Any], stop_at: int | None = None) -> None:
        self.told, self.stop_at = told, stop_at

    def begin(self) -> None:
        self.told.append("listener begins")

    def before_save(self, session: Any, step: int) -> None:
        assert session == "the session"

    def after_save(self, session: Any, step: int) -> bool:
        return step == self.stop_at

    def end(self, session: Any, step: int) -> None:
        self.told.append(("listener ends", step))


def taker(path: Path, told: list[Any], policy: SavePolicy, **options: Any) -> CheckpointTaker:
    listener = Listener(told, options.pop("stop_at", None))
    write = lambda session, step, synchronous: told.append(("saved", step))  # noqa: E731
    return CheckpointTaker(policy, str(path / "model.ckpt"), write, [listener], **options)


def test_checkpoints_are_taken_first_in_turn_and_last(parts, tmp_path: Path) -> None:
    _, _, _, hooks = parts
    told = hooks.told
    checkpoints = taker(tmp_path, told, SavePolicy(steps=40))
    made(*parts[1:], target_step=100, checkpoints=checkpoints).run()
    saved = [("saved", step) for step in (0, 40, 80, 100)]
    last = [("listener ends", 100), "end"]
    assert told == ["listener begins", "begin", saved[0], ("created", 0), *saved[1:], *last]


def test_step_that_is_saved_is_not_saved_again_at_the_end(parts, tmp_path: Path) -> None:
    told = parts[3].told
    made(*parts[1:], target_step=80, checkpoints=taker(tmp_path, told, SavePolicy(steps=40))).run()
    assert [t for t in told if t[0] == "saved"] == [("saved", s) for s in (0, 40, 80)]


def test_steps_that_do_not_move_are_saved_at_the_end_all_the_same(parts, tmp_path: Path) -> None:
    trace, _, feeder, hooks = parts
    trace.increment, feeder.size = 0, 5
    checkpoints = taker(tmp_path, hooks.told, SavePolicy(steps=40))
    made(*parts[1:], checkpoints=checkpoints).run()
    assert [t for t in hooks.told if t[0] == "saved"] == [("saved", 0), ("saved", 0)]


def test_checkpoints_by_the_clock(parts, tmp_path: Path) -> None:
    trace, _, _, hooks = parts
    clock = lambda: float(trace.step)  # noqa: E731  a second for each step
    policy = SavePolicy(secs=150.0)
    checkpoints = taker(tmp_path, hooks.told, policy, clock=clock)
    made(*parts[1:], target_step=1000, checkpoints=checkpoints).run()
    steps = [t[1] for t in hooks.told if t[0] == "saved"]
    assert steps[0] == 0 and steps[-1] == 1000
    between = [b - a for a, b in itertools.pairwise(steps[:-1])]
    assert between and all(150 <= seconds < 250 for seconds in between)


def test_listener_may_stop_it(parts, tmp_path: Path) -> None:
    trace, _, _, hooks = parts
    checkpoints = taker(tmp_path, hooks.told, SavePolicy(steps=40), stop_at=40)
    made(*parts[1:], target_step=100, checkpoints=checkpoints).run()
    assert trace.step == 40


def test_checkpoint_out_of_turn(parts, tmp_path: Path) -> None:
    _, _, _, hooks = parts
    checkpoints = taker(tmp_path, hooks.told, SavePolicy(steps=40))

    def save_twice(step: int, loss: Any) -> None:
        loop.save_now()
        loop.save_now()

    loop = made(*parts[1:], target_step=1, checkpoints=checkpoints, on_block=save_twice)
    loop.run()
    assert [t for t in hooks.told if t[0] == "saved"] == [("saved", 0), ("saved", 1)]
