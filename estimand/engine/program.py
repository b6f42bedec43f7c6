"""The compiled ways to run steps of a trace: many in one call, or one with fetches.

One function call per step loses to a v1 session; a hundred steps in one call win several times
over. So steps between two looks of the hooks run in an in-graph loop, and only the step a hook
looks at is run by itself, together with what the hook fetches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.engine.feeding import Feeder
from estimand.engine.fetching import FetchPlan, to_numpy
from estimand.engine.tracing import Trace

PLAIN = "plain"
SINGLE_THREAD = "single_thread"
BLOCK_MODES = (PLAIN, SINGLE_THREAD)


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
        self._result = result
        self._functions: dict[Any, Any] = {}
        self._counts: dict[int, tf.Tensor] = {}
        # Holds the result of the last finished step, for inputs that may end inside a block.
        self._last_result: tf.Variable | None = None

    # Many steps

    def loop(self, feeder: Feeder, steps: int) -> tf.Tensor:
        """Run `steps` steps in one call; the result of the last one."""
        if feeder.may_end_unexpectedly and self._last_result is None:
            self._last_result = tf.Variable(tf.zeros([], self._result.dtype), trainable=False)
        count = self._count(steps)
        function = self._function("loop", lambda: self._build_loop(feeder), feeder.iterator, count)
        with tf_private.executor(self.block_mode == SINGLE_THREAD):
            result = function(feeder.iterator, count)
        feeder.batches += steps
        return result

    def last_result(self) -> float | None:
        """The result of the last step before the input ended inside a block."""
        return None if self._last_result is None else float(self._last_result.numpy())

    def loop_on(self, batch: Sequence[tf.Tensor], steps: int, block_mode: str) -> tf.Tensor:
        """Run `steps` steps on one and the same batch (to measure, not to train)."""
        key = ("loop_on", block_mode)
        with tf_private.executor(block_mode == SINGLE_THREAD):
            if key not in self._functions:
                looping = tf.function(
                    lambda n, *b: self._while(n, lambda: list(b)), autograph=False
                )
                self._functions[key] = looping.get_concrete_function(self._count(steps), *batch)
            return self._functions[key](self._count(steps), *batch)

    def _build_loop(self, feeder: Feeder) -> Callable[..., tf.Tensor]:
        def loop(iterator: Any, steps: tf.Tensor) -> tf.Tensor:
            return self._while(steps, lambda: feeder.flatten(iterator.get_next()))

        return loop

    def _while(self, steps: tf.Tensor, next_batch: Callable[[], list[tf.Tensor]]) -> tf.Tensor:
        def body(index: tf.Tensor, _: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            fetches = [self._result, *self.targets]
            result = self.trace.place(fetches, self.trace.inputs, next_batch())[0]
            if self._last_result is not None:
                self._last_result.assign(result)
            return index + 1, result

        start = (tf.constant(0), tf.zeros([], self._result.dtype))
        return tf.while_loop(lambda i, _: i < steps, body, start, parallel_iterations=1)[1]

    # One step, with whatever is fetched beside it

    def step(
        self,
        feeder: Feeder,
        plan: FetchPlan,
        feeds: Sequence[tf.Tensor] = (),
        feed_values: Sequence[tf.Tensor] = (),
        *,
        keep_batch: bool = False,
    ) -> tuple[tf.Tensor, Any, list[tf.Tensor]]:
        """Run one step; its result, the fetched structure, and the batch if it is to be kept."""
        key = (plan.key, tuple(f.name for f in feeds), keep_batch)
        function = self._function(
            key,
            lambda: self._build_step(feeder, plan, feeds, keep_batch),
            feeder.iterator,
            *feed_values,
        )
        with tf_private.executor(self.block_mode == SINGLE_THREAD):
            result, reads, values, batch = function(feeder.iterator, *feed_values)
        feeder.batches += 1
        fetched = plan.rebuild([to_numpy(r) for r in reads], _merge(plan, values))
        return result, fetched, batch

    def _build_step(
        self, feeder: Feeder, plan: FetchPlan, feeds: Sequence[tf.Tensor], keep_batch: bool
    ) -> Callable[..., Any]:
        fetches = [self._result, *self.targets, *plan.graph_fetches]
        target_tensors = sum(not isinstance(t, tf.Operation) for t in self.targets)

        def run(iterator: Any, *feed_values: tf.Tensor) -> Any:
            batch = feeder.flatten(iterator.get_next())
            given = dict(zip((t.name for t in self.trace.inputs), batch, strict=True))
            given |= dict(zip((t.name for t in feeds), feed_values, strict=True))
            fed = {t.name: t for t in (*self.trace.inputs, *feeds)}
            # Before the step in program order, which automatic control dependencies keep.
            reads = [v.read_value() for v in plan.reads]
            values = self.trace.place(fetches, list(fed.values()), [given[n] for n in fed])
            return values[0], reads, values[1 + target_tensors :], batch if keep_batch else []

        return run

    # Shared

    def _function(self, key: Any, build: Callable[[], Callable[..., Any]], *args: Any) -> Any:
        """The concrete function for `key`: calling it directly skips tf.function's dispatch."""
        shapes = tuple((a.shape, a.dtype) for a in args[1:])
        key = (key, shapes, self.block_mode, self._last_result is not None)
        if key not in self._functions:
            with tf_private.executor(self.block_mode == SINGLE_THREAD):
                traced = tf.function(build(), autograph=False)
                self._functions[key] = traced.get_concrete_function(*args)
        return self._functions[key]

    def _count(self, steps: int) -> tf.Tensor:
        if steps not in self._counts:
            self._counts[steps] = tf.constant(steps)
        return self._counts[steps]


def _merge(plan: FetchPlan, values: Sequence[tf.Tensor]) -> list[Any]:
    """Values of the plan's graph fetches, with None in the places of ops."""
    tensors = iter(values)
    return [
        None if isinstance(f, tf.Operation) else to_numpy(next(tensors)) for f in plan.graph_fetches
    ]
