"""One call of the model function for each replica of this process, and one answer of all.

`strategy.run` calls it once per replica, each in a thread and in the name scope `replica_<i>/`
of its own, one after the other: a replica pauses where all have to meet (an optimizer that adds
up gradients). What they return is merged into the one EstimatorSpec that the engine runs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.engine.variables.placement import as_replica


def local_replicas(strategy: tf.distribute.Strategy) -> int:
    """How many replicas of the model run in this process."""
    return len(strategy.extended.worker_devices)


def first_device_is_default(strategy: tf.distribute.Strategy) -> bool:
    """Whether what runs without a strategy finds the variables where it runs."""
    gpus = tf.config.list_logical_devices("GPU")
    default = (gpus or tf.config.list_logical_devices("CPU"))[0].name.split("/")[-1]
    return strategy.extended.worker_devices[0].split("/")[-1] == default


def workers(strategy: tf.distribute.Strategy) -> int:
    """How many processes train together."""
    return strategy.num_replicas_in_sync // local_replicas(strategy)


def number_of_worker(strategy: tf.distribute.Strategy) -> int:
    """Which of these processes this one is."""
    resolver = strategy.cluster_resolver
    if workers(strategy) == 1 or resolver is None:
        return 0
    has_chief = "chief" in resolver.cluster_spec().jobs
    return resolver.task_id + int(has_chief and resolver.task_type == "worker")


@contextlib.contextmanager
def entered(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Build for `strategy`. Losses are means unless known otherwise, as tf.estimator has it."""
    with (
        strategy.scope(),
        tf_private.v1_optimizers_share_the_loss(strategy),
        tf_private.keras_losses_are_whole(),
        tf_private.keras_seeds_differ_by_replica(),
        tf_private.collective_keys_in_the_graph(),
    ):
        yield


def for_each(strategy: tf.distribute.Strategy, one_replica: Callable[[int], Any]) -> list[Any]:
    """What `one_replica`, called with the number of each local replica, returned."""
    count = local_replicas(strategy)
    results: list[Any] = [None] * count
    keras_settings = tf_private.keras_thread_settings()

    def call() -> None:
        context = tf.distribute.get_replica_context()
        index = int(tf.get_static_value(context.replica_id_in_sync_group)) % count
        with as_replica(index), tf_private.keras_thread_settings_applied(keras_settings):
            results[index] = one_replica(index)

    strategy.run(tf.autograph.experimental.do_not_convert(call))
    return results
