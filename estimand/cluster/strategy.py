"""Which `tf.distribute` strategy a cluster asks for, where the program names none."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from estimand.cluster.addresses import Cluster
from estimand.cluster.description import Task
from estimand.cluster.waiting import timeout_of, wait_for_peers
from estimand.core.errors import ClusterError, ConfigError
from estimand.core.tf_config import TaskType

PARAMETER_SERVERS = "ParameterServerStrategy"
MULTI_WORKER = "MultiWorkerMirroredStrategy"

_log = logging.getLogger("tensorflow")

# A process joins its cluster once; every estimator of the process uses the same strategy.
_made: dict[str, Any] = {}


def kind_of_strategy(config: Any) -> str | None:
    """The strategy that a RunConfig's place in the cluster asks for; None: train alone.

    >>> from estimand.core.config import RunConfig
    >>> kind_of_strategy(RunConfig()) is None
    True
    """
    if config.num_ps_replicas > 0:
        if config.num_worker_replicas < 2:
            raise ConfigError(
                f"TF_CONFIG has {config.num_ps_replicas} parameter servers and no worker. The "
                'chief drives the workers and does not compute itself: add "worker": '
                '["host:port"] to the cluster.'
            )
        return PARAMETER_SERVERS
    if config.num_worker_replicas > 1:
        return MULTI_WORKER
    return None


def make_strategy(config: Any) -> Any:
    """The strategy for training in this process, made when first asked for; None: train alone.

    It waits for the other processes. TensorFlow wants it before anything else is computed.
    """
    kind = kind_of_strategy(config)
    if kind is None:
        return None
    key = f"{kind} {config.task_type} {config.task_id} {config._cluster}"
    if key not in _made:
        make = _parameter_servers if kind == PARAMETER_SERVERS else _multi_worker
        with root_logger_left_alone():
            _made[key] = make(config)
        _log.info("%s, as TF_CONFIG asks for.", kind)
    return _made[key]


@contextlib.contextmanager
def root_logger_left_alone() -> Iterator[None]:
    """Strategies log with absl, which gives a root logger that has no handler one.

    From then on every line of TensorFlow's own logger would appear twice.
    """
    root = logging.getLogger()
    stand_in = logging.NullHandler()
    if not root.handlers:
        root.addHandler(stand_in)
    try:
        yield
    finally:
        root.removeHandler(stand_in)


def cluster_for_tensorflow(cluster: Cluster) -> dict[str, dict[int, str]]:
    """The cluster in the words of TensorFlow 2: no master, no evaluator.

    >>> cluster_for_tensorflow({"master": {0: "a:1"}, "ps": {0: "b:1"}, "evaluator": {0: "c:1"}})
    {'chief': {0: 'a:1'}, 'ps': {0: 'b:1'}}
    """
    return {
        _role_for_tensorflow(role): dict(tasks)
        for role, tasks in cluster.items()
        if role != TaskType.EVALUATOR
    }


def _role_for_tensorflow(role: str) -> str:
    return TaskType.CHIEF if role == TaskType.MASTER else role


def _multi_worker(config: Any) -> Any:
    import tensorflow as tf

    me = Task(config.task_type, config.task_id)
    if _tensorflow_has_begun():
        raise ClusterError(
            f"TensorFlow has computed something before {me} joined its cluster, and joins none "
            "after that. Call est.join_cluster() in the first line of the program; or make no "
            "tensor, Dataset, Keras model or Keras optimizer before train or train_and_evaluate."
        )
    wait_for_peers(config._cluster, timeout_of(config), me=me, listen=True)
    return tf.distribute.MultiWorkerMirroredStrategy(cluster_resolver=_resolver(config))


def _tensorflow_has_begun() -> bool:
    """Whether its runtime is set up: it then refuses what has to be settled before."""
    import tensorflow as tf

    threads = tf.config.threading.get_inter_op_parallelism_threads()
    try:
        tf.config.threading.set_inter_op_parallelism_threads(threads + 1)
    except RuntimeError:
        return True
    tf.config.threading.set_inter_op_parallelism_threads(threads)
    return False


def _parameter_servers(config: Any) -> Any:
    from estimand.core import tf_private

    me = Task(config.task_type, config.task_id)
    later = wait_for_peers(
        config._cluster, timeout_of(config), me=me, min_workers=config._min_workers
    )
    if later:
        _log.info("Training begins without %s.", ", ".join(map(str, later)))
    workers = config._cluster[TaskType.WORKER]
    there = {n: where for n, where in workers.items() if Task(TaskType.WORKER, n) not in later}
    return tf_private.strategy_with(there, _resolver(config), config.variable_partitioner)


def _resolver(config: Any) -> Any:
    import tensorflow as tf

    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(cluster_for_tensorflow(config._cluster)),
        task_type=_role_for_tensorflow(config.task_type),
        task_id=config.task_id,
        rpc_layer="grpc",
    )
