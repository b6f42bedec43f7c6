"""The training loop: the page to read first.

    begin ─ settle how to run ─ first checkpoint ─ after_create_session ─┐
                                  ▼
      ┌─ how many steps until a hook looks, the target, or the end of input? ── n
      │    run n-1 steps in one call               (Program.loop)
      │    hooks: before_run                        what do they want to see?
      │    run the n-th step with their fetches     (Program.step)
      │    maybe save                               (CheckpointTaker)
      │    hooks: after_run                         log, summarise, stop?
      └─ until the target step, the end of input, a hook's stop, or a signal
                                  ▼
                     last checkpoint ─ end

Where the loss is all that the hooks want to see, they are asked before the block, and all n steps
run in one call (`running/after_block.py`).

Checkpoints are taken before the first block, between two, and after the last, never inside of one.
What has been finished at that moment is therefore never in doubt.

What a step is only its program knows: traced and run in this process (`running/program.py`),
handed to workers (`distributed/parameter_servers_program.py`), or a call of the model function in
Python (`eager/program.py`).
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
from estimand.engine import time_spent
from estimand.engine.hook_calls import fetching
from estimand.engine.hook_calls.runner import HookRunner, Look
from estimand.engine.interrupts import Interrupts
from estimand.engine.running.after_block import Fetch
from estimand.engine.running.pace import Pace
from estimand.engine.running.ready_run import OnFirstBatch, ReadyRun
from estimand.engine.saving.taking import CheckpointTaker, NoCheckpoints
from estimand.engine.tracing.built_model import BuiltModel

_log = logging.getLogger("tensorflow")

_MAX_BLOCK_STEPS = 1000
# After so many steps without any movement of the global step, no step target can be reached.
_PATIENCE_STEPS = 1000


class TrainingLoop:
    """Runs one call of `Estimator.train`.

    Args:
      run: what was made ready.
      hooks: calls the hooks.
      target_step: the step to end with; None: when the input does.
      save_checkpoint: for hooks that save.
      checkpoints: takes the checkpoints of the run; none where a hook does.
      interrupts: the signals that end it.
      on_block: told the step and the loss after each block.
    """

    def __init__(
        self,
        run: ReadyRun,
        hooks: HookRunner,
        *,
        target_step: int | None,
        save_checkpoint: Callable[..., str],
        checkpoints: CheckpointTaker | NoCheckpoints,
        interrupts: Interrupts,
        on_block: Callable[[int, Any], None],
    ) -> None:
        self.last_loss: Any = None
        self.motionless_steps = 0  # in all: those that did not move the global step
        self._run = run
        self._program = run.program
        self._feeder = run.feeder
        self._hooks = hooks
        self._target = target_step
        self._save = save_checkpoint
        self._checkpoints = checkpoints
        self._interrupts = interrupts
        self._on_block = on_block
        self._on_first_batch: list[OnFirstBatch] = []
        self._max_block = min(run.max_steps_per_call or _MAX_BLOCK_STEPS, _MAX_BLOCK_STEPS)
        self._step = 0
        self._changes_at_step: int | None = None  # when it was seen
        self._pace = Pace()
        self._increment = 1  # how far one training step moves the global step
        self._motionless_in_a_row = 0
        self._stop_reason: str | None = None

    # What hooks may use

    @property
    def trace(self) -> BuiltModel:
        return self._program.trace

    @property
    def hooks(self) -> list[Any]:
        return list(self._hooks.hooks)

    def global_step(self) -> int:
        if self._changes_at_step is not None and self._changes_at_step == self._run.changes():
            return self._step
        with tf_private.eager_mode():  # hooks also ask while the graph is the default one
            return self.trace.step_now()

    def save_checkpoint(self, step: int, **options: Any) -> str:
        with tf_private.eager_mode():
            return self._save(step, **options)

    @property
    def saves_by_itself(self) -> bool:
        """Whether no hook does it."""
        return self._checkpoints.takes_any

    def save_now(self) -> None:
        """Take a checkpoint out of turn, unless this step has one."""
        step = self.global_step()
        if not self._checkpoints.has(step):
            self._take_checkpoint(step)

    def request_stop(self, reason: str) -> None:
        self._stop_reason = reason

    # The loop

    def run(self) -> None:
        """Train until the target, the end of input, a hook's wish or a signal."""
        for hook in self._hooks.bound:
            hook.bind(self)
        with self._hooks.extending():
            self._checkpoints.begin()
        self._hooks.begin()
        self._on_first_batch = self._run.hooks_have_begun(self.hooks, self._target)
        self._step = self.global_step()
        self._first_checkpoint()
        self._hooks.after_create_session(self._step)
        self._agree_on_the_end()
        # A hook may end the run the way an input does, by raising one of these.
        with contextlib.suppress(tf.errors.OutOfRangeError, StopIteration):
            self._run_blocks()
        self._last_checkpoint()
        self._hooks.end()

    @time_spent.on(time_spent.STEPS)
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
        self.trace.stop.reset()
        team = self._run.team
        if team.size > 1:
            self._target = team.least(self._last_step())
            self._feeder.agree(team)

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
        if wanted and not reached:
            self.trace.stop.cast(interrupted=interrupted)  # others see it with the next step
        return reached or self._stopped_together()

    def _last_step(self) -> int | None:
        targets = [self._target, *(hook.stop_step for hook in self._hooks.bound)]
        return min((t for t in targets if t is not None), default=None)

    def _block_length(self) -> int:
        """Steps until something has to happen; 0 when the input is known to be used up."""
        limits = [self._max_block, self._pace.steps_per_call]
        looks = [
            self._hooks.steps_to_next_look(self._step),
            self._checkpoints.due_in(self._step),
        ]
        limits += [math.ceil(look / self._increment) for look in looks if look is not None]
        last_step = self._last_step()
        if last_step is not None:
            limits.append(max(1, (last_step - self._step) // self._increment))
        if self._feeder.remaining is not None:
            limits.append(self._feeder.remaining)
        return min(limits)

    def _run_block(self, steps: int) -> bool:
        """Run `steps` steps, letting the hooks look at the last; False when the input ended."""
        batches = self._feeder.batches
        self._changes_at_step = None  # it moves
        due = self._hooks.steps_to_next_look(self._step)
        looked_at = due is not None and due <= steps * self._increment
        asked = self._ask_before_block(steps) if looked_at else None
        fetch = None if asked is None else self._fetch_after_block(asked)
        single = (looked_at and fetch is None) or bool(self._on_first_batch)
        plain = steps - 1 if single else steps
        step = self._step
        look: Look | None = None
        start = time.perf_counter()
        try:
            if plain:
                self.last_loss, step = self._program.loop(self._feeder, plain)
            if single and not self._stopped_together():
                if looked_at:
                    look = asked or self._hooks.before_run(step, self._increment)
                step, fetched = self._single_step(look)
            elif fetch is not None and not self._stopped_together():
                look, fetched = asked, fetch(self.last_loss, step)
        except tf.errors.OutOfRangeError:
            self._input_ended()
            return False
        self._pace.note(time.perf_counter() - start, steps)
        if self._stopped_together():  # maybe inside of the block
            steps = (step - self._step) // self._increment
            self._feeder.stands_after(batches + steps)
        self._advance(step, steps)
        self._check_loss()  # before the variables of a diverged model can be saved
        self._on_block(self._step, self.last_loss)
        self._maybe_save()
        if look is not None:
            self._hooks.after_run(look, fetched, self._step)
        return True

    def _ask_before_block(self, steps: int) -> Look | None:
        """What the hooks want to see of its last step; None: ask them just before that step."""
        within = steps * self._increment
        if steps == 1 or self._on_first_batch:
            return None
        if not self._hooks.may_ask_earlier(self._step, within):
            return None
        return self._hooks.before_run(self._step, within)

    def _fetch_after_block(self, look: Look) -> Fetch | None:
        """What makes it of that step's loss, so that all steps can run in one call, if it can."""
        if look.plan is None or look.feeds:
            return None
        return self._program.fetch_after_block(look.plan)

    # Checkpoints: here, and by nobody else unless a hook was given that does it

    def _maybe_save(self) -> None:
        if self._checkpoints.is_due(self._step):
            self._take_checkpoint(self._step)

    def _take_checkpoint(self, step: int) -> None:
        with self.trace.at_a_look():  # listeners look up tensors, as hooks do
            if self._checkpoints.take(self._hooks.session, step, self.motionless_steps):
                self.request_stop("a listener of checkpoints asked for it")

    def _first_checkpoint(self) -> None:
        with self.trace.as_default() as graph:
            if not self.trace.runs_eagerly:
                self._checkpoints.record_graph(graph)
            self._checkpoints.take(self._hooks.session, self._step)

    def _last_checkpoint(self) -> None:
        with self.trace.as_default():
            step = self.global_step()
            if not self._checkpoints.has(step) or self._checkpoints.misses(self.motionless_steps):
                self._checkpoints.take(self._hooks.session, step, self.motionless_steps)
            self._checkpoints.end(self._hooks.session, step)

    def _stopped_together(self) -> bool:
        return self.trace.stop.agreed

    def _single_step(self, look: Look | None) -> tuple[int, dict[int, Any]]:
        """Run the step that hooks look at; the global step after it and what they fetched."""
        plan = fetching.NOTHING if look is None or look.plan is None else look.plan
        if not self._on_first_batch and look is not None and look.asks_for_nothing:
            self.last_loss, step = self._program.loop(self._feeder, 1)
            return step, {}
        first, self._on_first_batch = self._on_first_batch, []
        feeds = (look.feeds, look.feed_values) if look is not None else ([], [])
        done = self._program.step(self._feeder, plan, *feeds, keep_batch=bool(first))
        self.last_loss = done.result
        for use in first:
            use(done.batch)
        return done.global_step, done.fetched if look is not None else {}

    def _advance(self, step: int, steps: int) -> None:
        self._run.mark_changed()
        before, self._step = self._step, step
        self._changes_at_step = self._run.changes()
        moved = self._step - before
        if moved > 0:
            self._motionless_in_a_row = 0
            self._increment = max(self._increment, math.ceil(moved / steps))
            return
        self._motionless_in_a_row += steps
        self.motionless_steps += steps
        if self._motionless_in_a_row == steps:
            _log.warning(
                "The training step did not advance the global step (still %d). Pass "
                "global_step=tf.compat.v1.train.get_global_step() to optimizer.minimize, or use "
                "est.minimize(optimizer, loss), which does so.",
                self._step,
            )
        if self._motionless_in_a_row >= _PATIENCE_STEPS and self._last_step() is not None:
            raise ModelFnError(
                f"{self._motionless_in_a_row} training steps did not advance the global step "
                f"(still {self._step}), so step {self._last_step()} would never be reached. Pass "
                "global_step=tf.compat.v1.train.get_global_step() to optimizer.minimize, or use "
                "est.minimize(optimizer, loss), which does so."
            )

    def _input_ended(self) -> None:
        """The input ran out inside a block: take stock of what was done before that."""
        before, self._step = self._step, self.global_step()
        last = self._program.last_result()
        if self._motionless_in_a_row:  # then nobody can tell how many there were, or whether any
            self.motionless_steps += 1
        if self._motionless_in_a_row or self._step > before:
            self._run.mark_changed()
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
