"""How a model is spread over devices and processes. Here: not at all.

`Distribution` is what the engine asks for everything that may be spread; `engine/distributed` has
those of strategies, and nothing but the estimator knows of that folder.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from estimand.core.errors import ClusterError
from estimand.core.spec import EstimatorSpec
from estimand.engine.feeding.feeder import Feeder, Unpack
from estimand.engine.interrupts import Interrupts
from estimand.engine.metrics import MetricSet
from estimand.engine.variables.maker import VariableMaker
from estimand.inputs.contract import ModelInput

OneReplica = Callable[[int], tuple[EstimatorSpec, MetricSet | None]]

_LOST = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
)


class Stop:
    """The wish to stop, which a process that trains alone grants itself at once."""

    def __init__(self) -> None:
        self.agreed = False
        self.interrupted = False

    def reset(self) -> None:
        self.agreed = self.interrupted = False

    def cast(self, *, interrupted: bool) -> None:
        """Ask all to stop after the next step."""
        self.agreed, self.interrupted = True, interrupted

    # While a block of steps is built

    def in_loops(self, step: Callable[..., tf.Tensor]) -> Callable[..., tf.Tensor]:
        """`step` in the form in which a loop takes it."""
        return step

    def unless_agreed(self, condition: tf.Tensor) -> tf.Tensor:
        """`condition` to go on, unless all have agreed to stop meanwhile."""
        return condition


class Team:
    """The processes that train one model together. This one by itself: what it says goes."""

    size = 1
    number = 0

    @property
    def is_chief(self) -> bool:
        """Whether this is the one that decides, and that writes to model_dir."""
        return self.number == 0

    def from_chief(self, values: Sequence[int]) -> list[int]:
        """What the chief gave for `values`."""
        return [int(value) for value in values]

    def least(self, value: int | None) -> int | None:
        """The smallest that anyone gave; None counts as endless."""
        return value

    def wait(self) -> None:
        """Until all have come here."""

    def take_from_chief(self, variables: Sequence[tf.Variable]) -> None:
        """Give `variables` the values that they have in the chief."""


class Distribution:
    """One replica in this process."""

    # Whether all take batches at one pace, so that there is one place in the input to go on from.
    has_one_input = True
    # Whether a trace is built under a strategy.
    is_strategy = False
    # Whether steps are run by workers, which do not wait for each other.
    has_servers = False
    # How many batches one step takes in this process.
    replicas = 1

    def __init__(self) -> None:
        self.team = Team()

    @property
    def leads(self) -> bool:
        """Whether this process writes to model_dir."""
        return self.team.is_chief

    @property
    def of_traces(self) -> Distribution:
        """The one that a trace is built for, where it is to take a batch for each replica."""
        return self

    # While a model function is traced

    def variable_maker(self) -> VariableMaker:
        """Makes the variables of a new store."""
        return VariableMaker()

    def stop(self) -> Stop:
        """Lets all processes that train a new trace stop at the same step."""
        return Stop()

    def entered(self) -> contextlib.AbstractContextManager[None]:
        """Around the calls of the model function."""
        return contextlib.nullcontext()

    def call(self, one_replica: OneReplica, stop: Stop) -> tuple[EstimatorSpec, MetricSet | None]:
        """Call `one_replica` for each replica of this process, and merge what they give."""
        del stop
        return one_replica(0)

    def finish(self, graph: tf.Graph) -> None:
        """What must hold of a graph before anything is cut out of it."""

    # Its input

    def input_context(self) -> tf.distribute.InputContext | None:
        """What an input function is told that wants to choose its part itself."""
        return None

    def own_share(self, given: ModelInput, input_fn: Callable[..., Any]) -> ModelInput:
        """The batches for this process."""
        del input_fn
        return given

    def feeder(
        self, dataset: tf.data.Dataset, unpack: Unpack, stop: Stop, keep_alive: Any
    ) -> Feeder:
        """Gives the batches to steps."""
        del stop
        return Feeder(dataset, unpack, keep_alive=keep_alive, replicas=self.replicas)

    # A training call

    @contextlib.contextmanager
    def lost_processes_named(self) -> Iterator[None]:
        """Say in one sentence that another process was lost."""
        try:
            yield
        except _LOST as error:
            told = self._told(error)
            if told is None:
                raise
            raise ClusterError(told) from error

    def _told(self, error: tf.errors.OpError) -> str | None:
        del error
        return None

    def ended(self, stop: Stop, interrupts: Interrupts) -> None:
        """All have finished their steps, and the chief has saved: now each may go its way."""
        if stop.interrupted and interrupts.received is None:
            interrupts.received = signal.SIGTERM  # another process was told to end
        self.team.wait()
