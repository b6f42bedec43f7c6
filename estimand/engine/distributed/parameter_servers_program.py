"""Steps of a trace, run by the workers of a cluster with parameter servers.

It stands where a `StepProgram` does: many steps in one go, or one with what hooks fetch. Many
steps are cut into blocks, two for each worker under way, so that none has to wait for the chief;
when the last one is done, nobody is at work, and hooks and checkpoints find everything at rest.
"""

from __future__ import annotations

import collections
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import tensorflow as tf

from estimand.engine.distributed.bundling import bundled
from estimand.engine.distributed.parameter_servers import AnswerLost, Servers, answer_of
from estimand.engine.distributed.parameter_servers_input import WorkersInput
from estimand.engine.hook_calls.fetching import FetchPlan
from estimand.engine.running.program import StepResult, as_asked
from estimand.engine.tracing.trace import Trace
from estimand.engine.variables.placement import on_server

_BLOCKS_PER_WORKER = 2
_MOST_STEPS_PER_BLOCK = 100
_NO_LIMIT = tf.int64.max
# What a block answers, in one tensor: to fetch one costs the same as to fetch five.
_DONE, _ENDED, _WORKER, _STEP, _RESULT = range(5)


class ServedProgram:
    """Runs `targets` of a trace once per batch, on whichever worker is free."""

    def __init__(
        self, trace: Trace, targets: Sequence[Any], result: tf.Tensor, servers: Servers
    ) -> None:
        self.trace = trace
        self.targets = list(targets)
        self._result = result
        self._servers = servers
        self._functions: dict[Any, Any] = {}
        self._ended: set[int] = set()  # workers whose input has ended
        self._input: Any = None
        self._last_result: float | None = None
        self._step: int | None = None
        self._counts_by_one = False

    def fetch_after_block(self, plan: FetchPlan) -> None:
        """Nothing: the last loss may be of another worker's step."""

    def last_result(self) -> float | None:
        """The result of the last step before the input ended."""
        return self._last_result

    def seconds_waited(self) -> None:
        """The workers wait, each for itself, while others are at work."""

    # Many steps

    def loop(self, feeder: WorkersInput, steps: int) -> tuple[Any, int]:
        """Run `steps` steps; the result of the last one to end, and the global step."""
        self._take(feeder)
        known = self._step if self._counts_by_one else None
        limit = tf.constant(_NO_LIMIT if known is None else known + steps, tf.int64)
        function = self._function(
            "loop", feeder, lambda *args: self._block(feeder, *args), tf.constant(0), limit
        )
        size = min(_MOST_STEPS_PER_BLOCK, math.ceil(steps / self._most_under_way()))
        under_way: collections.deque[tuple[int, Any]] = collections.deque()
        left, done = steps, 0
        while left or under_way:
            while left and len(under_way) < self._most_under_way():
                count = min(left, size)
                left -= count
                under_way.append((count, self._schedule(function, feeder, count, limit)))
            count, answer = under_way.popleft()
            try:
                values = answer_of(answer, self._servers.strategy)
            except AnswerLost:
                left += count  # again, as TensorFlow does it where the worker was still at work
                continue
            done += int(values[_DONE])
            self._note(values)
            if values[_ENDED]:
                left += count - int(values[_DONE])
                if self._all_ended():
                    left = 0
        feeder.took(done)
        if done < steps and self._all_ended():
            raise tf.errors.OutOfRangeError(None, None, "End of input on all workers.")
        return self._last_result, self._current_step()

    def _schedule(self, function: Any, feeder: WorkersInput, count: int, limit: tf.Tensor) -> Any:
        return self._servers.coordinator.schedule(
            function, args=(feeder.iterators, tf.constant(count), limit)
        )

    def _block(
        self, feeder: WorkersInput, source: Any, count: tf.Tensor, limit: tf.Tensor
    ) -> tf.Tensor:
        """Up to `count` steps, fewer where the input ends or the global step reaches `limit`.

        The latter happens only after a worker was lost, whose block another one did again.
        """
        iterator, worker, tables = source
        step, step_after = self.trace.global_step, self._step_after

        def batch_for(index: tf.Tensor) -> Any:
            """None is taken from the input that is not used: it would be lost."""
            if feeder.endless:
                return ()
            nothing = tf.experimental.Optional.empty(iterator.element_spec)
            return tf.cond(index < count, iterator.get_next_as_optional, lambda: nothing)

        def go_on(index: tf.Tensor, batch: Any, reached: tf.Tensor, _: tf.Tensor) -> tf.Tensor:
            there = True if feeder.endless else batch.has_value()
            return (index < count) & (reached < limit) & there

        def body(index: tf.Tensor, batch: Any, _: tf.Tensor, __: tf.Tensor) -> tuple[Any, ...]:
            element = iterator.get_next() if feeder.endless else batch.get_value()
            following = batch_for(index + 1)
            fetches = [self._result, step_after]
            result, reached = self._place(fetches, feeder, element, tables)
            return index + 1, following, reached, result

        none = tf.constant(0)
        reached = tf.cast(step.read_value(), tf.int64)
        start = (none, batch_for(none), reached, tf.zeros([], self._result.dtype))
        done, _, reached, result = tf.while_loop(go_on, body, start, parallel_iterations=1)
        ended = (done < count) & (reached < limit)
        return self._answer(done, ended, worker, result)

    @functools.cached_property
    def _step_after(self) -> tf.Tensor:
        """By the step before, which is sent with all that a step reads: nobody waits for it."""
        with tf.init_scope(), self.trace.as_default():
            return tf.cast(self.trace.global_step.read_value(), tf.int64) + 1

    # One step, with whatever is fetched beside it

    def step(
        self,
        feeder: WorkersInput,
        plan: FetchPlan,
        feeds: Sequence[tf.Tensor] = (),
        feed_values: Sequence[tf.Tensor] = (),
        *,
        keep_batch: bool = False,
    ) -> StepResult:
        """Run one step, with hooks' fetches and feeds; `keep_batch` also gives the batch."""
        self._take(feeder)
        key = (plan.key, tuple(f.name for f in feeds), keep_batch)
        function = self._function(
            key,
            feeder,
            lambda source, *values: self._one(feeder, source, plan, feeds, values, keep_batch),
            *feed_values,
        )
        before = self._step
        while True:
            arguments = (feeder.iterators, *feed_values)
            answer = self._servers.coordinator.schedule(function, args=arguments)
            try:
                values, *rest = answer_of(answer, self._servers.strategy)
            except AnswerLost:
                continue
            self._note(values)
            if not values[_ENDED]:
                break
            if self._all_ended():
                raise tf.errors.OutOfRangeError(None, None, "End of input on all workers.")
        feeder.took()
        self._counts_by_one = before is not None and self._step == before + 1
        fetched, batch = as_asked(plan, [_as_a_session_gives(value) for value in rest])
        batch = [tf.convert_to_tensor(part) for part in batch]
        return StepResult(values[_RESULT], int(values[_STEP]), fetched, batch)

    def _one(
        self,
        feeder: WorkersInput,
        source: Any,
        plan: FetchPlan,
        feeds: Sequence[tf.Tensor],
        feed_values: Sequence[tf.Tensor],
        keep_batch: bool,
    ) -> list[tf.Tensor]:
        iterator, worker, tables = source

        def run(element: Any) -> list[tf.Tensor]:
            # Before the step in program order, which automatic control dependencies keep.
            reads = [v.read_value() for v in plan.reads]
            fetches = [self._result, *plan.graph_fetches]
            fed = dict(zip((t.name for t in feeds), feed_values, strict=True))
            result, *wanted = self._place(fetches, feeder, element, tables, feeds, fed)
            return [result, *reads, *wanted, *(feeder.flatten(element) if keep_batch else ())]

        if feeder.endless:
            result, *rest = run(iterator.get_next())
            return [self._answer(tf.constant(1), tf.constant(False), worker, result), *rest]
        element = iterator.get_next_as_optional()
        outputs: list[tf.Tensor] = []

        def present() -> list[tf.Tensor]:
            outputs[:] = run(element.get_value())
            return outputs

        def absent() -> list[tf.Tensor]:
            return [_empty(t) for t in outputs]

        there = element.has_value()
        result, *rest = tf.cond(there, present, absent)
        done = tf.cast(there, tf.int32)
        return [self._answer(done, tf.logical_not(there), worker, result), *rest]

    # Shared

    def _place(
        self,
        fetches: Sequence[Any],
        feeder: WorkersInput,
        element: Any,
        tables: Sequence[tf.Tensor],
        feeds: Sequence[tf.Tensor] = (),
        feed_values: Mapping[str, tf.Tensor] = MappingProxyType({}),
    ) -> list[tf.Tensor]:
        """The step and `fetches`, in the function being built; the tensors among the latter."""
        inputs = (*self.trace.inputs, *feeder.tables)
        values = (*feeder.flatten(element), *tables)
        given = dict(zip((t.name for t in inputs), values, strict=True)) | dict(feed_values)
        fed = {t.name: t for t in (*inputs, *feeds)}
        everything = [*fetches, *self.targets]
        placed = self.trace.place(
            everything,
            list(fed.values()),
            [given[n] for n in fed],
            rewrite=lambda part: bundled(part, self.trace.graph, self._servers_of_captures()),
        )
        return placed[: sum(not isinstance(f, tf.Operation) for f in fetches)]

    def _servers_of_captures(self) -> dict[str, str]:
        """On which device each variable is, by the name of what stands for it in the graph."""
        captures = self.trace.graph.captures  # type: ignore[attr-defined]
        return {inner.op.name: outer.device for outer, inner in captures if on_server(outer)}

    def _answer(
        self, done: tf.Tensor, ended: tf.Tensor, worker: tf.Tensor, result: tf.Tensor
    ) -> tf.Tensor:
        step = self.trace.global_step.read_value()
        return tf.stack([tf.cast(t, tf.float64) for t in (done, ended, worker, step, result)])

    def _function(
        self, key: Any, feeder: WorkersInput, build: Callable[..., Any], *args: Any
    ) -> Any:
        key = (key, repr(feeder.spec), feeder.endless, *((a.shape, a.dtype) for a in args))
        if key not in self._functions:
            function = tf.function(build, autograph=False)
            self._functions[key] = function.get_concrete_function(feeder.spec, *args)
        return self._functions[key]

    def _take(self, feeder: WorkersInput) -> None:
        if self._input is not feeder:
            self._input = feeder
            self._ended.clear()
            self._step = self._current_step()

    def _note(self, values: np.ndarray) -> None:
        worker = int(values[_WORKER])
        if values[_ENDED]:
            self._ended.add(worker)
        else:
            self._ended.discard(worker)  # restarted, it has begun its share anew
        if values[_DONE]:
            self._last_result = float(values[_RESULT])
        self._step = max(int(values[_STEP]), self._step or 0)

    def _most_under_way(self) -> int:
        return _BLOCKS_PER_WORKER * max(1, len(self._servers.present()))

    def _all_ended(self) -> bool:
        return self._ended >= self._servers.awaited()

    def _current_step(self) -> int:
        self._step = int(self.trace.global_step.numpy())
        return self._step


def _as_a_session_gives(value: Any) -> Any:
    """Scalars are none of NumPy's arrays, but its numbers, or bytes."""
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value


def _empty(like: tf.Tensor) -> tf.Tensor:
    """Something of the same type, where there is no batch to compute it from."""
    sizes = [] if like.shape.rank is None else like.shape.as_list()
    shape = [size or 0 for size in sizes]
    return tf.fill(shape, "") if like.dtype == tf.string else tf.zeros(shape, like.dtype)
