"""How a model is trained under a strategy: on several devices, by several processes, with servers.

Made once for the variables of a model. Whoever trains asks it what follows for them (are there
several replicas, is there one place in the input), and not which class of `tf.distribute` it has.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.spec import EstimatorSpec
from estimand.engine.distributed import collectives, inputs, merging, parameter_servers, replicas
from estimand.engine.distributed.lookahead import LookaheadFeeder
from estimand.engine.distributed.mirrored import MirroredVariables
from estimand.engine.distributed.stopping import StopVote
from estimand.engine.distributed.team import SeveralProcesses
from estimand.engine.distribution import Distribution, OneReplica, Stop
from estimand.engine.feeding.feeder import Feeder, Unpack
from estimand.engine.metrics import MetricSet
from estimand.engine.variables.maker import VariableMaker
from estimand.inputs.contract import ModelInput


def distribution_of(strategy: tf.distribute.Strategy | None) -> Distribution:
    """That of `strategy`; None: of one process that trains alone."""
    if strategy is None:
        return Distribution()
    if isinstance(strategy, tf.distribute.ParameterServerStrategy):
        return WithServers(strategy)
    return Replicated(strategy)


class Replicated(Distribution):
    """Replicas, in one process or in several, that take the same steps together."""

    is_strategy = True

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        super().__init__()
        self.strategy = strategy
        tf_private.order_collectives_of(strategy)
        self.replicas = replicas.local_replicas(strategy)
        if replicas.workers(strategy) > 1:
            self.team = SeveralProcesses(strategy)

    def variable_maker(self) -> VariableMaker:
        return MirroredVariables(self.strategy)

    def stop(self) -> Stop:
        return StopVote() if self.team.size > 1 else Stop()

    def entered(self) -> contextlib.AbstractContextManager[None]:
        return replicas.entered(self.strategy)

    def call(self, one_replica: OneReplica, stop: Stop) -> tuple[EstimatorSpec, MetricSet | None]:
        return merging.call_and_merge(self.strategy, one_replica, stop)

    def finish(self, graph: tf.Graph) -> None:
        collectives.tie_together(graph)

    def input_context(self) -> tf.distribute.InputContext:
        return inputs.input_context(self.strategy)

    def own_share(self, given: ModelInput, input_fn: Callable[..., Any]) -> ModelInput:
        return inputs.own_share(given, input_fn, self.strategy)

    def feeder(
        self, dataset: tf.data.Dataset, unpack: Unpack, stop: Stop, keep_alive: Any
    ) -> Feeder:
        unknown = dataset.cardinality() == tf.data.UNKNOWN_CARDINALITY
        if unknown and isinstance(stop, StopVote):
            return LookaheadFeeder(
                dataset, unpack, stop=stop, keep_alive=keep_alive, replicas=self.replicas
            )
        return super().feeder(dataset, unpack, stop, keep_alive)

    def _told(self, error: tf.errors.OpError) -> str | None:
        if self.team.size == 1:
            return None
        reason = error.message.strip().splitlines()[0][:300]
        return (
            f"Process {self.team.number} of {self.team.size} cannot go on: another one that "
            f"trains with it was lost ({reason}). The last checkpoint is intact: start all of "
            "them again and training continues from there."
        )


class WithServers(Distribution):
    """Workers that do not wait for each other, and variables on servers.

    No replica knows of another one: the model function is traced as for one process.
    """

    has_one_input = False
    has_servers = True

    def __init__(self, strategy: tf.distribute.ParameterServerStrategy) -> None:
        super().__init__()
        self.strategy = strategy

    @property
    def of_traces(self) -> Distribution:
        return Distribution()

    def variable_maker(self) -> VariableMaker:
        return parameter_servers.Servers(self.strategy)

    def _told(self, error: tf.errors.OpError) -> str | None:
        if not isinstance(error, parameter_servers.LOST):
            return None
        gone = parameter_servers.lost_servers(self.strategy)
        return (
            f"Training cannot go on: {gone}, and the variables with it. The last checkpoint is "
            "intact: start all processes again and training continues from there."
        )
