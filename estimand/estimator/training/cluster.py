"""What `Estimator.train` does where `TF_CONFIG` makes it part of a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from estimand.cluster.dead_workers import dead_workers_noticed
from estimand.cluster.description import Task
from estimand.cluster.preemption import preemption_noticed
from estimand.cluster.servers import leaving_note, serve, tell_servers
from estimand.cluster.silent_connections import silent_ones_ended
from estimand.cluster.strategy import kind_of_strategy, make_strategy, root_logger_left_alone
from estimand.cluster.waiting import timeout_of
from estimand.cluster.worker_addresses import WorkerAddresses, addresses_of_workers, retract
from estimand.core.config import RunConfig
from estimand.core.tf_config import TaskType
from estimand.estimator.workspace import Workspace
from estimand.hooks import stop_record


def serves(config: RunConfig) -> bool:
    """Whether this process computes or holds what a chief asks for, and trains nothing itself."""
    return config.num_ps_replicas > 0 and config.task_type in (TaskType.WORKER, TaskType.PS)


def serve_chief(workspace: Workspace) -> None:
    """Serve until the chief has ended the training."""
    config = workspace.config
    kind_of_strategy(config)  # complains of a cluster that cannot work
    known = stop_record.read(workspace.model_dir)

    def record_is_new() -> bool:
        record = stop_record.read(workspace.model_dir)
        return record is not None and record != known

    serve(config, timeout=timeout_of(config), record_is_new=record_is_new)


@contextlib.contextmanager
def taking_part(workspace: Workspace) -> Iterator[None]:
    """Train inside: with the strategy of the cluster, and telling servers when it is over."""
    config: RunConfig = workspace.config
    if config.train_distribute is None and kind_of_strategy(config) is not None:
        workspace.distribute(make_strategy(config))
    has_servers = config.num_ps_replicas > 0
    workers = _workers(workspace) if has_servers else WorkerAddresses({})
    with contextlib.ExitStack() as stack:
        stack.enter_context(root_logger_left_alone())
        if kind_of_strategy(config) is not None:
            me = Task(config.task_type, config.task_id)
            stack.enter_context(silent_ones_ended(config._cluster, me, workers.now))
        if has_servers:
            stack.enter_context(dead_workers_noticed(workers.now))
            stack.enter_context(preemption_noticed(config._cluster, leaving_note))
        yield
    if has_servers:
        tell_servers(config._cluster, workers.there(workers.numbers()))
        if workers.model_dir is not None:
            retract(workers.model_dir)  # of those that were lost
        # The variables have gone with the servers; what comes next reads the checkpoint.
        workspace.distribute(None)


def _workers(workspace: Workspace) -> WorkerAddresses:
    """Where they are; those that may move are found by what they leave in the model_dir."""
    config = workspace.config
    if not isinstance(config.train_distribute, tf.distribute.ParameterServerStrategy):
        return WorkerAddresses(config._cluster.get(TaskType.WORKER, {}))  # they wait in vain
    workers = addresses_of_workers(config.train_distribute)
    if config._min_workers is not None:
        workers.model_dir = workspace.model_dir
        retract(workspace.model_dir)  # who is there leaves it again within seconds
    return workers
