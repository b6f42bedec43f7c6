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
from estimand.engine.distributed import collectives
from estimand.engine.feeding.feeder import Feeder
from estimand.engine.hook_calls.fetching import FetchPlan, to_numpy
from estimand.engine.running import convolutions, gates, whole_loop
from estimand.engine.running.compiled import (
    BLOCK_MODES,
    ONEDNN,
    PLAIN,
    SINGLE_THREAD,
    XLA,
    Compiled,
)
from estimand.engine.running.pace import Pace
from estimand.engine.tracing import effects
from estimand.engine.tracing.trace import Trace

__all__ = ["BLOCK_MODES", "ONEDNN", "PLAIN", "SINGLE_THREAD", "XLA", "StepProgram", "StepResult"]

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
    """Runs `targets` of a trace once per batch; `result` (a scalar tensor) is what it reports."""

    def __init__(
        self,
        trace: Trace,
        targets: Sequence[Any],
        result: tf.Tensor,
        *,
        block_mode: str = PLAIN,
    ) -> None:
        self.trace = trace
        self.block_mode = block_mode
        self.targets = list(targets)
        self.pace = Pace()  # of an evaluation, which the next one goes on with
        self._result = result
        self._compiled: dict[Any, Compiled] = {}
        # What computes fetches beside an XLA step, and what it changes and should not.
        self._looks: dict[Any, tuple[Compiled, list[tf.Variable]]] = {}
        self._counts: dict[int, tf.Tensor] = {}
        # Holds the result of the last finished step, for inputs that may end inside a block.
        self._last_result: tf.Variable | None = None
        self.expect_batches_of(None)
        self._wholes: dict[str, whole_loop.WholeLoop] = {}  # by the shapes of a batch

    # Many steps

    def loop(self, feeder: Feeder, steps: int) -> tuple[tf.Tensor, int]:
        """Run `steps` steps in one call; the result of the last one, and the global step."""
        if feeder.may_end_unexpectedly and self._last_result is None:
            self._last_result = tf.Variable(tf.zeros([], self._result.dtype), trainable=False)

        def build(iterator: Any, count: tf.Tensor) -> Any:
            result = self._steps(count, lambda: feeder.draw(iterator), self.block_mode)
            return result, self.trace.global_step.read_value()

        self._before_steps()
        left = steps
        while left > 0:
            now = min(left, self._whole.capacity) if self.block_mode == XLA else left
            count = self._count(now)
            with self.trace.usage:
                compiled = self._function("loop", build, feeder.iterator, count)
                result, global_step = compiled(feeder.handle, count)
            feeder.batches += now
            left -= now
        return result, int(global_step)

    def last_result(self) -> float | None:
        """The result of the last step before the input ended inside a block."""
        return None if self._last_result is None else float(self._last_result.numpy())

    def loop_on(self, batch: Sequence[tf.Tensor], steps: int, block_mode: str) -> tf.Tensor:
        """Run `steps` steps on one and the same batch, in one call."""
        count = self._count(steps)
        key = ("loop_on", block_mode, self._shapes_key)
        if key not in self._compiled:
            self._compiled[key] = Compiled(
                lambda n, *b: self._steps(n, lambda: list(b), block_mode), block_mode, count, *batch
            )
        return self._compiled[key](count, *batch)[0]

    def most_steps_at_once(self, block_mode: str) -> int:
        return self._whole.capacity if block_mode == XLA else _MOST_STEPS_IN_TRIAL

    def expect_batches_of(self, batch_size: int | None) -> None:
        """All batches to come have so many rows, as far as that is certain."""
        self._batch_shapes = whole_loop.shapes_of_batch(self.trace, batch_size)
        self._shapes_key = str(self._batch_shapes)  # once: every step looks up its function

    def compiling_problem(self, *, asked: bool) -> str | None:
        """Why XLA cannot compile the steps; None: it has done so."""
        shapes, targets = self._batch_shapes, [self._result, *self.targets]
        problem = gates.compiling_problem(self.trace, targets, shapes, asked=asked)
        if problem is not None:
            return problem
        if whole_loop.too_large(self.trace, shapes):
            return "its batches are too large"
        if self._shapes_key in self._wholes:
            return None
        try:
            batch = [tf.zeros(spec.shape, spec.dtype) for spec in self._whole.batch_spec]
            self.loop_on(batch, 0, XLA)
        except (tf.errors.OpError, ValueError, TypeError) as error:
            del self._wholes[self._shapes_key]
            return str(error).splitlines()[0][:300]
        return None

    @property
    def _whole(self) -> whole_loop.WholeLoop:
        key = self._shapes_key
        if key not in self._wholes:
            self._wholes[key] = whole_loop.WholeLoop(
                self.trace,
                self._batch_shapes,
                self._place_step,
                self._result.dtype,
                [self._result, *self.targets],
            )
        return self._wholes[key]

    def _place_step(self, batch: list[tf.Tensor], block_mode: str = XLA) -> tf.Tensor:
        fetches = [self._result, *self.targets]
        placed = self.trace.place(fetches, self.trace.inputs, batch, _rewrite(block_mode))
        self._count_step(batch)
        return placed[0]

    def _count_step(self, batch: Sequence[tf.Tensor]) -> None:
        if self.trace.draws is not None:
            with tf.control_dependencies(batch):  # an input that has ended is no step
                self.trace.draws.advance()

    def _steps(
        self, steps: tf.Tensor, next_batch: Callable[[], list[tf.Tensor]], block_mode: str
    ) -> tf.Tensor:
        if block_mode == XLA:
            return self._whole.build(steps, next_batch)

        def body(index: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            place = self._place_step
            if self.trace.stop is not None:
                place = collectives.outside_of_loops(place)
            result = place(next_batch(), block_mode)
            if self._last_result is not None:
                self._last_result.assign(result)
            return index + 1, result

        def go_on(index: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
            stop = self.trace.stop
            return index < steps if stop is None else (index < steps) & stop.none_seen()

        start = (tf.constant(0), tf.zeros([], self._result.dtype))
        return tf.while_loop(go_on, body, start, parallel_iterations=1)[1]

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
        if self.block_mode == XLA and not feeds:
            return self._look_and_step(feeder, plan, keep_batch)
        key = (plan.key, tuple(f.name for f in feeds), keep_batch)
        with self.trace.usage:
            compiled = self._function(
                key,
                lambda i, *values: self._step(feeder, i, plan, feeds, values, keep_batch),
                feeder.iterator,
                *feed_values,
            )
            result, global_step, *rest = compiled(feeder.handle, *feed_values)
        feeder.batches += 1
        fetched, batch = as_asked(plan, rest)
        return StepResult(result, int(global_step), fetched, batch)

    def _step(
        self,
        feeder: Feeder,
        iterator: Any,
        plan: FetchPlan,
        feeds: Sequence[tf.Tensor],
        feed_values: Sequence[tf.Tensor],
        keep_batch: bool,
    ) -> list[tf.Tensor]:
        batch = feeder.draw(iterator)
        given = dict(zip((t.name for t in self.trace.inputs), batch, strict=True))
        given |= dict(zip((t.name for t in feeds), feed_values, strict=True))
        fed = {t.name: t for t in (*self.trace.inputs, *feeds)}
        # Before the step in program order, which automatic control dependencies keep.
        reads = [self.trace.variables.twins.own(v).read_value() for v in plan.reads]
        fetches = [self._result, *self.targets, *plan.graph_fetches]

        def place() -> list[tf.Tensor]:
            values = [given[n] for n in fed]
            rewrite = _rewrite(self.block_mode)
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
        batch = feeder.next_batch()
        fetches = [f for f in plan.graph_fetches if not any(f is t for t in self.targets)]
        values: list[tf.Tensor] = []
        if plan.reads or fetches:
            key = (plan.key, self._shapes_key)
            if key not in self._looks:
                build = lambda *b: [  # noqa: E731
                    *(v.read_value() for v in plan.reads),
                    *self.trace.place(fetches, self.trace.inputs, b),
                ]
                compiled = Compiled(build, SINGLE_THREAD, *batch)
                self._looks[key] = compiled, self._written_twice(fetches)
            look, undone = self._looks[key]
            before = [v.read_value() for v in undone]
            values = look(*batch)
            for variable, value in zip(undone, before, strict=True):
                variable.assign(value)
        result = self.loop_on(batch, 1, XLA)
        fetched, _ = as_asked(plan, values)
        step = int(self.trace.global_step.read_value())
        return StepResult(result, step, fetched, batch if keep_batch else [])

    def _written_twice(self, fetches: Sequence[tf.Tensor | tf.Operation]) -> list[tf.Variable]:
        """The variables that the step writes, and computing `fetches` that wait for it as well."""
        step = {op.name for op in gates.needed([self._result, *self.targets])}
        both = {op.name for op in gates.needed(fetches)} & step
        graph, variables = self.trace.graph, list(self.trace.variables.by_name.values())
        if self.trace.draws is not None:
            variables += self.trace.draws.variables
        return [v for v in variables if any(w.name in both for w in effects.writes_to(graph, [v]))]

    # Shared

    def _before_steps(self) -> None:
        if self.trace.draws is not None:
            self.trace.draws.settle()

    def _function(self, key: Any, build: Callable[..., Any], *args: Any) -> Compiled:
        shapes = tuple((a.shape, a.dtype) for a in args[1:])
        key = (key, shapes, self.block_mode, self._last_result is not None, self._shapes_key)
        key = (*key, self.trace.binding)
        if key not in self._compiled:
            self._compiled[key] = Compiled(build, self.block_mode, *args)
        return self._compiled[key]

    def _count(self, steps: int) -> tf.Tensor:
        if steps not in self._counts:
            self._counts[steps] = tf.constant(steps)
        return self._counts[steps]


def _rewrite(block_mode: str) -> Callable[[Any], Any] | None:
    """What is done to the ops of a step before they are placed."""
    return convolutions.with_onednn if block_mode == ONEDNN else None


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
