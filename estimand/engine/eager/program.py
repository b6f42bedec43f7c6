"""Steps that are calls of the model function in Python: a program as the loop takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from estimand.core.modes import ModeKeys
from estimand.engine.eager.run import EagerRunner, EagerTrace
from estimand.engine.eager.session import EagerSession
from estimand.engine.feeding.batches import pack_batch
from estimand.engine.feeding.feeder import Feeder
from estimand.engine.hook_calls.fetching import FetchPlan
from estimand.engine.hook_calls.runner import HookRunner
from estimand.engine.running.program import StepResult
from estimand.engine.running.waiting import Waiting


@dataclass(frozen=True)
class FirstStep:
    """One that was run to make the variables, and undone; it waits for its turn."""

    batch: list[tf.Tensor]
    put_in_place: Callable[[], EagerTrace]


class EagerProgram:
    """Calls the model function once per batch.

    Args:
      runner: calls it.
      session: what hooks see, which moves on with every step.
      element_spec: how features and labels of a batch are packed.
      first_step: to be put in place instead of calling the model function for the first batch.
    """

    def __init__(
        self,
        runner: EagerRunner,
        session: EagerSession,
        element_spec: tuple[Any, Any],
        first_step: FirstStep | None = None,
    ) -> None:
        self.first_step = first_step
        self._runner = runner
        self._session = session
        self._element_spec = element_spec
        self._waiting = Waiting()

    @property
    def trace(self) -> EagerTrace:
        """The newest call of the model function."""
        return self._session.trace

    def loop(self, feeder: Feeder, steps: int) -> tuple[tf.Tensor, int]:
        for _ in range(steps):
            self._step(feeder)
        return self.trace.spec.loss, self.trace.step_now()

    def step(
        self,
        feeder: Feeder,
        plan: FetchPlan,
        feeds: Sequence[tf.Tensor] = (),
        feed_values: Sequence[tf.Tensor] = (),
        *,
        keep_batch: bool = False,
    ) -> StepResult:
        del feeds, feed_values  # the session gives none
        batch = self._step(feeder)
        with self.trace.as_default():
            values = [self._session.fetched_with_step(fetch) for fetch in plan.graph_fetches]
        fetched = plan.rebuild((), values)
        loss, global_step = self.trace.spec.loss, self.trace.step_now()
        return StepResult(loss, global_step, fetched, batch if keep_batch else [])

    def fetch_after_block(self, plan: FetchPlan) -> None:
        """Nothing: every call of the model function is a block."""

    def last_result(self) -> None:
        """Nothing happens behind the loop's back: it has seen every step."""

    def seconds_waited(self) -> float | None:
        return self._waiting.seconds()

    def _step(self, feeder: Feeder) -> list[tf.Tensor]:
        first, self.first_step = self.first_step, None
        if first is not None:
            batch, trace = first.batch, first.put_in_place()
            feeder.took()
        else:
            with self._waiting.here():
                batch = feeder.next_batch()
            trace = self._call(batch)
        if trace.mode == ModeKeys.TRAIN:
            self._runner.draws.advance()
        self._session.move_on_to(trace)
        return batch

    def _call(self, batch: Sequence[tf.Tensor]) -> EagerTrace:
        try:
            return self._runner.run(*pack_batch(self._element_spec, batch))
        except StopIteration as error:  # which would be taken for the end of the input
            raise RuntimeError("model_fn raised StopIteration") from error


def watched_calls(
    program: EagerProgram, feeder: Feeder, hooks: HookRunner, steps: int | None = None
) -> Iterator[EagerTrace]:
    """One call after another, with hooks around each, as evaluate and predict make them."""
    hooks.begin()
    hooks.after_create_session(0)
    done = 0
    while (steps is None or done < steps) and not hooks.stop_requested:
        look = hooks.before_run(done, 1)
        try:
            if look is None or look.plan is None:
                program.loop(feeder, 1)
            else:
                fetched = program.step(feeder, look.plan).fetched
        except tf.errors.OutOfRangeError:
            break
        done += 1
        if look is not None:
            hooks.after_run(look, fetched, done)
        yield program.trace
    hooks.end()
