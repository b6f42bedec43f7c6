"""How one model is trained: alone, on several devices, by several processes, or with servers.

Made once for a training call. Whoever trains asks it, and never what kind of strategy there is.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from estimand.core.errors import ClusterError
from estimand.engine.distributed import inputs, parameter_servers
from estimand.engine.distributed.replicas import local_replicas
from estimand.engine.distributed.team import Team
from estimand.engine.running.interrupts import Interrupts
from estimand.inputs.contract import ModelInput

_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)


class Distribution:
    """Replicas that take the same steps together; without a strategy there is one of them."""

    # Whether all take batches at one pace, so that there is one place in the input to go on from.
    has_one_input = True

    def __init__(self, strategy: tf.distribute.Strategy | None) -> None:
        self.strategy = strategy
        self.team = Team.of(parameter_servers.in_sync(strategy))

    @staticmethod
    def of(strategy: tf.distribute.Strategy | None) -> Distribution:
        with_servers = parameter_servers.uses_servers(strategy)
        return _WithServers(strategy) if with_servers else Distribution(strategy)

    @property
    def leads(self) -> bool:
        """Whether this process writes to model_dir."""
        return self.team.is_chief

    @property
    def is_strategy(self) -> bool:
        """Whether a trace is to be built under a strategy."""
        return self.strategy is not None

    @property
    def replicas(self) -> int:
        """How many batches one step takes in this process."""
        return local_replicas(self.strategy)

    def input_context(self) -> tf.distribute.InputContext | None:
        """What an input function is told that wants to choose its part itself."""
        return inputs.input_context(self.strategy)

    def own_share(self, given: ModelInput, input_fn: Callable[..., Any]) -> ModelInput:
        """The batches for this process."""
        return inputs.own_share(given, input_fn, self.strategy)

    @contextlib.contextmanager
    def losses_told(self) -> Iterator[None]:
        """Say in one sentence that another process was lost."""
        try:
            yield
        except _LOST as error:
            told = self._told(error)
            if told is None:
                raise
            raise ClusterError(told) from error

    def _told(self, error: tf.errors.OpError) -> str | None:
        if self.team.size == 1:
            return None
        reason = error.message.strip().splitlines()[0][:300]
        return (
            f"Process {self.team.number} of {self.team.size} cannot go on: another one that "
            f"trains with it was lost ({reason}). The last checkpoint is intact: start all of "
            "them again and training continues from there."
        )

    def ended(self, trace: Any, interrupts: Interrupts) -> None:
        """All have finished their steps, and the chief has saved: now each may go its way."""
        stop = trace.stop
        if stop is not None and stop.interrupted and interrupts.received is None:
            interrupts.received = signal.SIGTERM  # another process was told to end
        self.team.wait()


class _WithServers(Distribution):
    """Workers that do not wait for each other, and variables on servers."""

    has_one_input = False

    def _told(self, error: tf.errors.OpError) -> str | None:
        if not isinstance(error, parameter_servers.LOST):
            return None
        gone = parameter_servers.lost_servers(self.strategy)
        return (
            f"Training cannot go on: {gone}, and the variables with it. The last checkpoint is "
            "intact: start all processes again and training continues from there."
        )
