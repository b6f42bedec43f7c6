"""The training loop: the page to read first.

    begin ─ after_create_session ─┐
                                  ▼
      ┌─ how many steps until a hook looks, the target, or the end of input? ── n
      │    run n-1 steps in one call               (StepProgram.loop)
      │    hooks: before_run                        what do they want to see?
      │    run the n-th step with their fetches     (StepProgram.step)
      │    hooks: after_run                         log, summarise, save, stop?
      └─ until the target step, the end of input, a hook's stop, or a signal
                                  ▼
                                 end                (final checkpoint)

There is exactly one place where a checkpoint can be taken: between two blocks. What has been
finished at that moment is therefore never in doubt.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.errors import ModelFnError
from estimand.engine.feeding.feeder import Feeder, Together
from estimand.engine.hook_calls import fetching
from estimand.engine.hook_calls.runner import HookRunner, Look
from estimand.engine.running.interrupts import Interrupts
from estimand.engine.running.pace import Pace
from estimand.engine.running.program import StepProgram
from estimand.engine.tracing.trace import Trace

_log = logging.getLogger("tensorflow")

_MAX_BLOCK_STEPS = 1000
# After so many steps without any movement of the global step, no step target can be reached.
_PATIENCE_STEPS = 1000


OnFirstBatch = Callable[[list[tf.Tensor]], None]


class TrainingLoop:
    """Runs one call of `Estimator.train`."""

    def __init__(
        self,
        trace: Trace,
        program: StepProgram,
        feeder: Feeder,
        hooks: HookRunner,
        *,
        target_step: int | None,
        model_dir: str | None,
        save_checkpoint: Callable[..., str],
        interrupts: Interrupts,
        on_block: Callable[[int, Any], None],
        after_begin: Callable[[], OnFirstBatch | None] = lambda: None,
        max_steps_per_call: int | None = None,
        team: Together,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._team = team
        self.trace = trace
        self.model_dir = model_dir
        self.last_loss: Any = None
        self.motionless_steps = 0  # that did not move the global step
        self._program = program
        self._feeder = feeder
        self._hooks = hooks
        self._target = target_step
        self._save = save_checkpoint
        self._interrupts = interrupts
        self._on_block = on_block
        self._after_begin = after_begin
        self._on_change = on_change
        self._on_first_batch: OnFirstBatch | None = None
        self._max_block = min(max_steps_per_call or _MAX_BLOCK_STEPS, _MAX_BLOCK_STEPS)
        self._step = 0
        self._pace = Pace()
        self._increment = 1  # how far one training step moves the global step
        self._motionless = 0
        self._stop_reason: str | None = None
        self._no_fetches = fetching.plan(trace, [])

    # What hooks may use

    @property
    def hooks(self) -> list[Any]:
        return list(self._hooks.hooks)

    def global_step(self) -> int:
        with tf_private.eager_mode():  # hooks also ask while the graph is the default one
            return self.trace.step_now()

    def save_checkpoint(self, step: int, **options: Any) -> str:
        with tf_private.eager_mode():
            return self._save(step, **options)

    def request_stop(self, reason: str) -> None:
        self._stop_reason = reason

    # The loop

    def run(self) -> None:
        """Train until the target, the end of input, a hook's wish or a signal."""
        for hook in self._hooks.bound:
            hook.bind(self)
        self._hooks.begin()
        self._on_first_batch = self._after_begin()
        self._step = self.global_step()
        self._hooks.after_create_session(self._step)
        self._agree_on_the_end()
        # A hook may end the run the way an input does, by raising one of these.
        with contextlib.suppress(tf.errors.OutOfRangeError, StopIteration):
            self._run_blocks()
        self._hooks.end()

    def _run_blocks(self) -> None:
        while not self._finished():
            steps = self._block_length()
            if steps == 0:
                # A v1 session finds out by trying: hooks are asked once more, and see no result.
                self._hooks.before_run(self._step, self._increment)
                self._tell_what_is_left_over()
                self._tell_of_an_early_end()
                break
            if not self._run_block(steps):
                self._tell_of_an_early_end()
                break

    def _agree_on_the_end(self) -> None:
        """All processes end with the first one that reaches its last step or batch."""
        if self.trace.stop is not None:
            self.trace.stop.reset()
            self._target = self._team.least(self._last_step())
            self._feeder.agree(self._team)

    def _tell_what_is_left_over(self) -> None:
        if self._feeder.left_over:
            left = self._feeder.left_over
            _log.info(
                "%d %s left out at the end of the input: a step takes one for each replica, and "
                "there were not enough for all of them.",
                left,
                "batch" if left == 1 else "batches",
            )

    def _tell_of_an_early_end(self) -> None:
        if self._target is not None and 0 < self._step < self._target:
            logging.getLogger("estimand").warning(
                "train: the input ended at step %d, before step %d was reached. To go through the "
                "data again and again, let input_fn return dataset.repeat().",
                self._step,
                self._target,
            )

    def _finished(self) -> bool:
        last_step = self._last_step()
        reached = last_step is not None and self._step >= last_step
        interrupted = self._interrupts.received is not None
        wanted = self._stop_reason is not None or self._hooks.stop_requested or interrupted
        stop = self.trace.stop
        if stop is None:
            return reached or wanted
        if wanted and not reached:
            stop.cast(interrupted=interrupted)  # all see it with the next step
        return reached or self._stopped_together()

    def _last_step(self) -> int | None:
        targets = [self._target, *(hook.stop_step for hook in self._hooks.bound)]
        return min((t for t in targets if t is not None), default=None)

    def _block_length(self) -> int:
        """Steps until something has to happen; 0 when the input is known to be used up."""
        limits = [self._max_block, self._pace.steps_per_call]
        look = self._hooks.steps_to_next_look(self._step)
        if look is not None:
            limits.append(math.ceil(look / self._increment))
        last_step = self._last_step()
        if last_step is not None:
            limits.append(max(1, (last_step - self._step) // self._increment))
        if self._feeder.remaining is not None:
            limits.append(self._feeder.remaining)
        return min(limits)

    def _run_block(self, steps: int) -> bool:
        """Run `steps` steps, letting the hooks look at the last; False when the input ended."""
        batches = self._feeder.batches
        due = self._hooks.steps_to_next_look(self._step)
        looked_at = due is not None and due <= steps * self._increment
        single = looked_at or self._on_first_batch is not None
        plain = steps - 1 if single else steps
        step = self._step
        look: Look | None = None
        start = time.perf_counter()
        try:
            if plain:
                self.last_loss, step = self._program.loop(self._feeder, plain)
            if single and not self._stopped_together():
                look = self._hooks.before_run(step, self._increment) if looked_at else None
                step, fetched = self._single_step(look)
        except tf.errors.OutOfRangeError:
            self._input_ended()
            return False
        self._pace.note(time.perf_counter() - start, steps)
        if self._stopped_together():  # maybe inside of the block
            steps = (step - self._step) // self._increment
            self._feeder.batches = batches + steps
        self._advance(step, steps)
        self._check_loss()  # before a hook can save the variables of a diverged model
        self._on_block(self._step, self.last_loss)
        if look is not None:
            self._hooks.after_run(look, fetched, self._step)
        return True

    def _stopped_together(self) -> bool:
        return self.trace.stop is not None and self.trace.stop.agreed

    def _single_step(self, look: Look | None) -> tuple[int, dict[int, Any]]:
        """Run the step that hooks look at; the global step after it and what they fetched."""
        plan = self._no_fetches if look is None or look.plan is None else look.plan
        if self._on_first_batch is None and look is not None and _fetches_nothing(look, plan):
            # The hooks only waited for this moment: no need to compile a step of its own.
            self.last_loss, step = self._program.loop(self._feeder, 1)
            return step, {}
        first, self._on_first_batch = self._on_first_batch, None
        feeds = (look.feeds, look.feed_values) if look is not None else ([], [])
        done = self._program.step(self._feeder, plan, *feeds, keep_batch=first is not None)
        self.last_loss = done.result
        if first is not None:
            first(done.batch)
        return done.global_step, done.fetched if look is not None else {}

    def _advance(self, step: int, steps: int) -> None:
        self._on_change()
        before, self._step = self._step, step
        moved = self._step - before
        if moved > 0:
            self._motionless = 0
            self._increment = max(self._increment, math.ceil(moved / steps))
            return
        self._motionless += steps
        self.motionless_steps += steps
        if self._motionless == steps:
            _log.warning(
                "The training step did not advance the global step (still %d). Pass "
                "global_step=tf.compat.v1.train.get_global_step() to optimizer.minimize, or use "
                "est.minimize(optimizer, loss), which does so.",
                self._step,
            )
        if self._motionless >= _PATIENCE_STEPS and self._last_step() is not None:
            raise ModelFnError(
                f"{self._motionless} training steps did not advance the global step (still "
                f"{self._step}), so step {self._last_step()} would never be reached. Pass "
                "global_step=tf.compat.v1.train.get_global_step() to optimizer.minimize, or use "
                "est.minimize(optimizer, loss), which does so."
            )

    def _input_ended(self) -> None:
        """The input ran out inside a block: take stock of what was done before that."""
        before, self._step = self._step, self.global_step()
        last = self._program.last_result()
        if self._motionless:  # then nobody can tell how many there were, or whether any
            self.motionless_steps += 1
        if self._motionless or self._step > before:
            self._on_change()
        if self._step > before and last is not None:
            self.last_loss = last
            self._check_loss()
        if self._step > before:
            self._on_block(self._step, self.last_loss)

    def _check_loss(self) -> None:
        watching = self._hooks.bound
        if watching and self.last_loss is not None:
            loss = float(self.last_loss)
            for hook in watching:
                hook.check(loss, self._step)


def _fetches_nothing(look: Look, plan: fetching.FetchPlan) -> bool:
    return not (plan.reads or plan.graph_fetches or look.feeds)
