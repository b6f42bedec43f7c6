"""Which way of running blocks a training call takes: pinned, noted in model_dir, or measured."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.config import RunConfig
from estimand.engine import block_mode, time_spent
from estimand.engine.feeding.feeder import Feeder
from estimand.engine.model_dir import RunRecord
from estimand.engine.running import gates
from estimand.engine.running.compiled import ONEDNN, PLAIN, XLA
from estimand.engine.running.program import StepProgram
from estimand.engine.running.ready_run import OnFirstBatch

_log = logging.getLogger("tensorflow")


@dataclass(frozen=True)
class BlockModeChoice:
    """Sets `program.block_mode`, at once or after the first step."""

    program: StepProgram
    feeder: Feeder
    record: RunRecord
    config: RunConfig
    model_dir: str
    hooks: Sequence[Any]

    def make(self, start_step: int, target: int | None) -> OnFirstBatch | None:
        """What to do after the first step to settle how the others are run; None: settled."""
        program, recorded = self.program, self.record.block_mode
        program.block_mode = PLAIN
        program.expect_batches_of(self.feeder.batch_size)
        if gates.device_problem(program.trace) is not None:
            return None  # only the ordinary executor knows several devices
        if self.config.block_mode != "auto":
            program.block_mode = self._possible(self.config.block_mode)
            if program.block_mode != recorded:
                self._keep(start_step)  # who resumes the run without the pin goes on as before
            return None
        if recorded is not None:
            mode = self._possible(recorded)
            self._warn_if_kernels_differ()
            if start_step >= (self.record.block_mode_from_step or 0):
                program.block_mode = mode
                return None
            program.block_mode = self._before_choice()
            return lambda batch: setattr(program, "block_mode", mode)
        steps = self._steps_to_go(start_step, target)
        # A run with a seed is to come out the same wherever and whenever it is started: what a
        # stopwatch says does not decide how.
        seeded = self.config.tf_random_seed is not None
        tried = not seeded and block_mode.pays(program, steps)
        if not (tried and block_mode.may_be_tried(program.trace, program.targets)):
            program.block_mode = self._by_rule(steps) if seeded else block_mode.guess(program.trace)
            self._keep(start_step)
            return None
        program.block_mode = self._before_choice()

        @time_spent.on(time_spent.STARTING)
        def choose(batch: list[tf.Tensor]) -> None:
            program.block_mode = block_mode.measure(
                program,
                self.feeder.on_trial(batch),
                steps_to_go=steps,
                may_compile=self._may_compile(),
            )
            self._keep(start_step + 1)

        return choose

    def _before_choice(self) -> str:
        """Of the first step. What is compiled for it, which hooks look at, is of use later if it is
        the way that will be chosen."""
        return block_mode.guess(self.program.trace)

    def _by_rule(self, steps: int | None) -> str:
        there = steps is None or steps > 0
        # Who looks does not decide: the ways differ in their last bits.
        supply = self.feeder.supply(1) if there and not self._input_may_end() else None
        return block_mode.by_rule(self.program, supply, steps)

    def _may_compile(self) -> bool:
        return not self._input_may_end() and not self._every_step_is_looked_at()

    def _steps_to_go(self, start_step: int, target: int | None) -> int | None:
        limits = [self.feeder.remaining, None if target is None else target - start_step]
        return min((n for n in limits if n is not None), default=None)

    def _keep(self, from_step: int) -> None:
        self.record.block_mode = self.program.block_mode
        self.record.block_mode_from_step = from_step
        self.record.onednn_in_all_graphs = tf_private.onednn_in_all_graphs()
        self.record.save(self.model_dir)

    def _possible(self, mode: str) -> str:
        """`mode`, or if it cannot be had here the best that can."""
        if mode == ONEDNN:
            return mode if self._has_onednn() else PLAIN
        if mode != XLA or self.feeder.remaining == 0:
            return mode
        problem = "the length of its input is not known" if self._input_may_end() else None
        problem = problem or self.program.compiling_problem(self.feeder.supply(1), asked=True)
        if problem is None:
            return mode
        substitute = block_mode.guess(self.program.trace)
        _log.warning(
            "The steps of this model cannot be compiled by XLA: %s. They are run with "
            "block_mode=%r instead of 'xla'.",
            problem,
            substitute,
        )
        return substitute

    def _has_onednn(self) -> bool:
        """Without a word where TensorFlow uses it anyway."""
        available = tf_private.onednn_kernels_to_ask_for()
        if not available and not tf_private.onednn_in_all_graphs():
            _log.warning(
                "This TensorFlow has no kernels of oneDNN, or TF_ENABLE_ONEDNN_OPTS=0 forbids "
                "them: steps are run with block_mode='plain' instead of 'onednn'."
            )
        return available

    def _warn_if_kernels_differ(self) -> None:
        now = tf_private.onednn_in_all_graphs()
        if self.record.onednn_in_all_graphs not in (None, now):
            _log.warning(
                "The run that is resumed had TensorFlow's oneDNN kernels switched %s, this one "
                "has them %s: results will differ in their last bits. To go on with the same, "
                "set the environment variable TF_ENABLE_ONEDNN_OPTS=%d.",
                *(("off", "on", 0) if now else ("on", "off", 1)),
            )

    def _input_may_end(self) -> bool:
        """Then batches that were taken for a block would be lost."""
        return self.feeder.may_end_unexpectedly

    def _every_step_is_looked_at(self) -> bool:
        return any(getattr(hook, "cadence", None) is None for hook in self.hooks)
