"""What the loop of a training is given: a run that is ready, and the program of its steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import tensorflow as tf

from estimand.engine.distribution import Team
from estimand.engine.feeding.source import BatchSource
from estimand.engine.hook_calls import fetching
from estimand.engine.running.after_block import Fetch
from estimand.engine.running.program import StepResult
from estimand.engine.tracing.built_model import BuiltModel

OnFirstBatch = Callable[[list[tf.Tensor]], None]
_Source = TypeVar("_Source", bound=BatchSource, contravariant=True)


class Program(Protocol[_Source]):
    """Takes the steps of a run, each with a batch of its kind of source."""

    @property
    def trace(self) -> BuiltModel:
        """The model as the last step left it."""

    def loop(self, feeder: _Source, steps: int) -> tuple[Any, int]:
        """Run `steps` steps in one call; the loss of the last one, and the global step."""

    def step(
        self,
        feeder: _Source,
        plan: fetching.FetchPlan,
        feeds: Sequence[tf.Tensor] = (),
        feed_values: Sequence[tf.Tensor] = (),
        *,
        keep_batch: bool = False,
    ) -> StepResult:
        """Run one step, with what hooks fetch and feed."""

    def fetch_after_block(self, plan: fetching.FetchPlan) -> Fetch | None:
        """What makes fetches of what `loop` gives; None: they take a step by itself."""

    def last_result(self) -> float | None:
        """The loss of the last step before the input ended inside a block, where that is known."""

    def seconds_waited(self) -> float | None:
        """How long steps have waited for batches since the program was made; None: unknown."""


class ReadyRun(Protocol):
    """A run whose variables are filled and whose input is at its place; nothing has been run."""

    @property
    def program(self) -> Program[Any]:
        """Takes the steps, with batches of `feeder`."""

    @property
    def feeder(self) -> BatchSource: ...

    @property
    def team(self) -> Team:
        """The processes that run the same steps."""

    @property
    def max_steps_per_call(self) -> int | None:
        """At most so many steps between two looks at signals; None: by the clock."""

    def hooks_have_begun(self, hooks: Sequence[Any], target: int | None) -> list[OnFirstBatch]:
        """Hooks have begun, so the graph is complete: settle what depends on that. What is to be
        done with the first batch, after its step."""

    def mark_changed(self) -> None:
        """The variables may have other values than before."""

    def changes(self) -> int | None:
        """How often that was so; None: they may change without anybody saying so."""
