"""The compiled ways to run steps of a trace: many in one call, or one with fetches.

One function call per step loses to a v1 session; a hundred steps in one call win several times
over. So steps between two looks of the hooks run in an in-graph loop, and only the step a hook
looks at is run by itself, together with what the hook fetches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.engine.feeding.feeder import Feeder
from estimand.engine.feeding.supply import Supply, repeating
from estimand.engine.hook_calls.fetching import FetchPlan, to_numpy
from estimand.engine.rewriting import conditions, convolutions
from estimand.engine.running import gates, whole_loop
from estimand.engine.running.after_block import AfterBlock, Fetch
from estimand.engine.running.batch_checks import BatchChecks
from estimand.engine.running.compiled import (
    BLOCK_MODES,
    ONEDNN,
    PLAIN,
    SINGLE_THREAD,
    XLA,
    Compiled,
)
from estimand.engine.running.pace import Pace
from estimand.engine.running.waiting import Waiting
from estimand.engine.tracing.trace import Trace
from estimand.engine.variables import effects

__all__ = ["BLOCK_MODES", "ONEDNN", "PLAIN", "SINGLE_THREAD", "XLA", "StepProgram", "StepResult"]

Rewrite = Callable[[Any], Any]  # of the message of what is placed

# Of the ordinary ways; more show nothing more when they are measured.
_MOST_STEPS_IN_TRIAL = 200


@dataclass(frozen=True)
class StepResult:
    """What one step gave: its result, the global step after it, and what was asked for."""

    result: tf.Tensor
    global_step: int
    fetched: Any
    batch: list[tf.Tensor]


class StepProgram:
    """Runs `targets` of a trace once per batch; `result` (a scalar tensor) is what it reports.

    `times_input`: note how long steps wait for their batches.
    """

    def __init__(
        self,
        trace: Trace,
        targets: Sequence[Any],
        result: tf.Tensor,
        *,
        block_mode: str = PLAIN,
        times_input: bool = False,
    ) -> None:
        self.trace = trace
        self.block_mode = block_mode
        self.targets = list(targets)
        self.pace = Pace()  # of an evaluation, which the next one goes on with
        self._result = result
        self._compiled: dict[Any, Compiled] = {}
        self._give_their_batch: set[Any] = set()
        self._counts: dict[int, tf.Tensor] = {}
        # Holds the result of the last finished step, for inputs that may end inside a block.
        self._last_result: tf.Variable | None = None
        self._waiting = Waiting(wanted=times_input)
        self.expect_batches_of(None)
        self._after_block = AfterBlock(trace, result, self.targets)
        # By the shapes of a batch, and where it is taken from.
        self._wholes: dict[tuple[str, str], whole_loop.WholeLoop] = {}
        self._compilable: set[tuple[str, str]] = set()

    # Many steps

    def loop(self, feeder: Feeder, steps: int) -> tuple[tf.Tensor, int]:
        """Run `steps` steps in one call; the result of the last one, and the global step."""
        if feeder.may_end_unexpectedly and self._last_result is None:
            self._last_result = tf.Variable(tf.zeros([], self._result.dtype), trainable=False)

        self._before_steps()
        left = steps
        while left > 0:
            with self._waiting.here():
                supply = feeder.supply(left)
            now = min(supply.steps, self._most_steps(supply))
            timed = self._waiting.is_due(supply, at_once=self.block_mode == XLA)
            with self.trace.usage, self._waiting.around_call(now, timed=timed):
                result, global_step = self._run(supply, now, self.block_mode, timed=timed)
            feeder.took(now)
            left -= now
        return result, int(global_step)

    def _run(
        self, supply: Supply, steps: int, block_mode: str, *, timed: bool = False
    ) -> list[tf.Tensor]:
        """So many steps in one call: the result of the last one, and the global step."""

        def build(*args: Any) -> Any:
            *given, first, count = args
            result = self._steps(supply, given, first, count, block_mode, timed=timed)
            return result, self.trace.global_step.read_value()

        key = ("loop", supply.form, block_mode, self._last_result is not None, timed)
        counts = self._count(supply.first), self._count(steps)
        compiled = self._function(key, build, block_mode, *supply.signature, *counts)
        return compiled(*supply.values, *counts)

    def _most_steps(self, supply: Supply) -> int:
        stacked = self.block_mode == XLA and not supply.by_number
        return self._stacked.steps if stacked else supply.steps

    def last_result(self) -> float | None:
        """The result of the last step before the input ended inside a block."""
        return None if self._last_result is None else float(self._last_result.numpy())

    def seconds_waited(self) -> float | None:
        """How long steps have waited for their batches since the program was made."""
        return self._waiting.seconds()

    def try_out(self, supply: Supply, steps: int, block_mode: str) -> tf.Tensor:
        """Run `steps` steps in one call, as `loop` would."""
        return self._run(supply, steps, block_mode)[0]

    def most_steps_at_once(self, supply: Supply, block_mode: str) -> int:
        stacked = block_mode == XLA and not supply.by_number
        most = self._stacked.steps if stacked else _MOST_STEPS_IN_TRIAL
        return min(supply.steps, most)

    def expect_batches_of(self, batch_size: int | None) -> None:
        """All batches to come have so many rows, as far as that is certain."""
        self._batch_shapes = whole_loop.shapes_of_batch(self.trace, batch_size)
        self._shapes_key = str(self._batch_shapes)  # once: every step looks up its function

    def compiling_problem(self, supply: Supply, *, asked: bool) -> str | None:
        """Why XLA cannot compile the steps; None: it has done so."""
        shapes, targets = self._batch_shapes, [self._result, *self.targets]
        problem = gates.compiling_problem(self.trace, targets, shapes, asked=asked)
        if problem is not None:
            return problem
        if not supply.by_number:
            if whole_loop.too_large(self.trace, shapes):
                return "its batches are too large"
            typed = zip(shapes, self.trace.inputs, strict=True)
            supply = repeating([tf.zeros(shape, tensor.dtype) for shape, tensor in typed], 1)
        key = (self._shapes_key, supply.form)
        if key in self._compilable:
            return None
        try:
            self.try_out(supply, 0, XLA)
        except (tf.errors.OpError, ValueError, TypeError) as error:
            return str(error).splitlines()[0][:300]
        self._compilable.add(key)
        return None

    @property
    def _stacked(self) -> Supply:
        """Batches that are stacked first, wherever they come from."""
        return whole_loop.stacked(self.trace, self._batch_shapes)

    def _whole(self, supply: Supply) -> whole_loop.WholeLoop:
        key = (self._shapes_key, supply.form)
        if key not in self._wholes:
            part = self.trace.part([self._result, *self.targets], self._batch_shapes)
            checks = BatchChecks.of(self.trace, part)

            def one_step(batch: list[tf.Tensor]) -> tf.Tensor:
                return self._place_step(batch, checks.left_out)

            self._wholes[key] = whole_loop.WholeLoop(
                self.trace, supply, one_step, self._result.dtype, checks
            )
        return self._wholes[key]

    def _place_step(self, batch: list[tf.Tensor], rewrite: Rewrite | None) -> tf.Tensor:
        fetches = [self._result, *self.targets]
        placed = self.trace.place(fetches, self.trace.inputs, batch, rewrite)
        self._count_step(batch)
        return placed[0]

    def _count_step(self, batch: Sequence[tf.Tensor]) -> None:
        if self.trace.draws is not None:
            with tf.control_dependencies(batch):  # an input that has ended is no step
                self.trace.draws.advance()

    def _steps(
        self,
        supply: Supply,
        given: Sequence[Any],
        first: tf.Tensor,
        steps: tf.Tensor,
        block_mode: str,
        *,
        timed: bool = False,
    ) -> tf.Tensor:
        if block_mode == XLA:
            if supply.by_number:
                return self._whole(supply).build(supply, given, first, steps)
            stack = self._stacked
            draw = lambda number: supply.draw(given, number)  # noqa: E731
            batches = self._taken(lambda: whole_loop.stack(stack, draw, steps), timed)
            return self._whole(stack).build(stack, batches, tf.constant(0), steps)
        last = first + steps

        def body(index: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            place = self.trace.stop.in_loops(self._place_step)
            batch = self._taken(lambda: supply.draw(given, index), timed)
            result = place(batch, rewrite_for(block_mode))
            if self._last_result is not None:
                self._last_result.assign(result)
            return index + 1, result

        def go_on(index: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
            return self.trace.stop.unless_agreed(index < last)

        start = (first, tf.zeros([], self._result.dtype))
        return tf.while_loop(go_on, body, start, parallel_iterations=1)[1]

    def fetch_after_block(self, plan: FetchPlan) -> Fetch | None:
        """What makes fetches of what `loop` gives; None: they take a step by itself."""
        return self._after_block.fetch(plan)

    # One step, with whatever is fetched beside it

    def step(
        self,
        feeder: Feeder,
        plan: FetchPlan,
        feeds: Sequence[tf.Tensor] = (),
        feed_values: Sequence[tf.Tensor] = (),
        *,
        keep_batch: bool = False,
    ) -> StepResult:
        """Run one step, with hooks' fetches and feeds; `keep_batch` also gives the batch."""
        self._before_steps()
        looked_at = (plan.key, tuple(f.name for f in feeds), self.block_mode)
        if keep_batch:
            self._give_their_batch.add(looked_at)
        # What was compiled for the first step, of which the batch was wanted, does for the others.
        keep_batch = looked_at in self._give_their_batch
        if self.block_mode == XLA and not feeds:
            return self._look_and_step(feeder, plan, keep_batch)
        with self._waiting.here():
            supply = feeder.supply(1)
        first = self._count(supply.first)
        timed = self._waiting.is_due(supply, at_once=True)

        def build(*args: Any) -> Any:
            given, (number, *values) = args[: len(supply.values)], args[len(supply.values) :]
            batch = self._taken(lambda: supply.draw(given, number), timed)
            return self._step(batch, plan, feeds, values, keep_batch)

        key = (plan.key, supply.form, tuple(f.name for f in feeds), keep_batch)
        with self.trace.usage:
            compiled = self._function(
                key, build, self.block_mode, *supply.signature, first, *feed_values
            )
            result, global_step, *rest = compiled(*supply.values, first, *feed_values)
        feeder.took()
        fetched, batch = as_asked(plan, rest)
        return StepResult(result, int(global_step), fetched, batch)

    def _step(
        self,
        batch: list[tf.Tensor],
        plan: FetchPlan,
        feeds: Sequence[tf.Tensor],
        feed_values: Sequence[tf.Tensor],
        keep_batch: bool,
    ) -> list[tf.Tensor]:
        given = dict(zip((t.name for t in self.trace.inputs), batch, strict=True))
        given |= dict(zip((t.name for t in feeds), feed_values, strict=True))
        fed = {t.name: t for t in (*self.trace.inputs, *feeds)}
        # Before the step in program order, which automatic control dependencies keep.
        reads = [self.trace.variables.twins.own(v).read_value() for v in plan.reads]
        fetches = [self._result, *self.targets, *plan.graph_fetches]

        def place() -> list[tf.Tensor]:
            values = [given[n] for n in fed]
            rewrite = rewrite_for(self.block_mode)
            placed = self.trace.place(fetches, list(fed.values()), values, rewrite)
            self._count_step(batch)
            return placed

        in_loops = self.block_mode == SINGLE_THREAD and tf_private.onednn_in_all_graphs()
        values = _in_a_body(place, fetches, self.trace.global_step) if in_loops else place()
        target_tensors = sum(not isinstance(t, tf.Operation) for t in self.targets)
        step_after = self.trace.global_step.read_value()
        wanted = values[1 + target_tensors :]
        return [values[0], step_after, *reads, *wanted, *(batch if keep_batch else ())]

    # A look under XLA. The step itself is the compiled one: whether somebody looks changes no
    # bit of the variables. What is fetched is computed beside it.

    def _look_and_step(self, feeder: Feeder, plan: FetchPlan, keep_batch: bool) -> StepResult:
        with self._waiting.here():
            supply = feeder.in_hand()
        fetches = [f for f in plan.graph_fetches if not any(f is t for t in self.targets)]

        def build(*args: Any) -> Any:
            *given, first, steps = args
            batch = supply.draw(given, first)
            reads = [v.read_value() for v in plan.reads]
            undone = self._written_twice(fetches)
            before = [v.read_value() for v in undone]
            seen = self.trace.place(fetches, self.trace.inputs, batch, conditions.as_loops)
            for variable, value in zip(undone, before, strict=True):
                variable.assign(value, read_value=False)
            result = self._steps(supply, given, first, steps, XLA)
            step_after = self.trace.global_step.read_value()
            return [result, step_after, *reads, *seen, *(batch if keep_batch else ())]

        key = ("look", plan.key, supply.form, keep_batch)
        counts = self._count(supply.first), self._count(1)
        with self.trace.usage:
            compiled = self._function(key, build, XLA, *supply.signature, *counts)
            result, step, *rest = compiled(*supply.values, *counts)
        fetched, batch = as_asked(plan, rest)
        return StepResult(result, int(step), fetched, batch)

    def _written_twice(self, fetches: Sequence[tf.Tensor | tf.Operation]) -> list[tf.Variable]:
        """The variables that the step writes, and computing `fetches` that wait for it as well."""
        step = {op.name for op in gates.needed([self._result, *self.targets])}
        both = {op.name for op in gates.needed(fetches)} & step
        graph, variables = self.trace.graph, list(self.trace.variables.by_name.values())
        if self.trace.draws is not None:
            variables += self.trace.draws.variables
        return [v for v in variables if any(w.name in both for w in effects.writes_to(graph, [v]))]

    # Shared

    def _taken(self, take: Callable[[], list[tf.Tensor]], timed: bool) -> list[tf.Tensor]:
        return self._waiting.timed(take) if timed else take()

    def _before_steps(self) -> None:
        if self.trace.draws is not None:
            self.trace.draws.settle()

    def _function(self, key: Any, build: Callable[..., Any], mode: str, *args: Any) -> Compiled:
        shapes = tuple((a.shape, a.dtype) for a in args if isinstance(a, tf.Tensor))
        key = (key, shapes, mode, self._shapes_key, self.trace.binding)
        if key not in self._compiled:
            self._compiled[key] = Compiled(build, mode, *args)
        return self._compiled[key]

    def _count(self, steps: int) -> tf.Tensor:
        if steps not in self._counts:
            self._counts[steps] = tf.constant(steps)
        return self._counts[steps]


def rewrite_for(block_mode: str) -> Rewrite | None:
    """What is done to the ops of a step before they are placed."""
    rewrites = {ONEDNN: convolutions.with_onednn, SINGLE_THREAD: conditions.as_loops}
    # What is not compiled, as a step that is fed, the single-threaded executor runs there.
    return (rewrites | {XLA: conditions.as_loops}).get(block_mode)


def _in_a_body(
    place: Callable[[], list[tf.Tensor]],
    fetches: Sequence[tf.Tensor | tf.Operation],
    global_step: tf.Variable,
) -> list[tf.Tensor]:
    """What `place` gives, computed to the last bit as in the body of a loop.

    Where TensorFlow uses oneDNN, it swaps its kernels into whole functions, but not into bodies
    that its single-threaded executor runs.
    """
    tensors = [f for f in fetches if not isinstance(f, tf.Operation)]
    always = global_step.read_value() > global_step.dtype.min
    values = tf.cond(always, place, lambda: [tf.zeros([], t.dtype) for t in tensors])
    for value, tensor in zip(values, tensors, strict=True):
        value.set_shape(tensor.shape)
    return values


def as_asked(plan: FetchPlan, values: Sequence[tf.Tensor]) -> tuple[Any, list[tf.Tensor]]:
    """The fetches in the structure that was asked for, and what of `values` is left."""
    reads = [to_numpy(r) for r in values[: len(plan.reads)]]
    rest = iter(values[len(plan.reads) :])
    fetched = [
        None if isinstance(f, tf.Operation) else to_numpy(next(rest)) for f in plan.graph_fetches
    ]
    return plan.rebuild(reads, fetched), list(rest)
