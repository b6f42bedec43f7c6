"""Joining the cluster in the first line of a program."""

from __future__ import annotations

from typing import Any

from estimand.cluster.strategy import make_strategy
from estimand.core.config import RunConfig
from estimand.core.tf_config import TaskType


def join_cluster(config: RunConfig | None = None) -> Any:
    """Join the processes that `TF_CONFIG` names, now rather than when training begins.

    Needed by programs that compute something before: build a Keras model or a Keras optimizer, or
    look at data. TensorFlow joins no cluster after that. A process that trains alone, evaluates, or
    serves a chief has nothing to join; the call then does nothing.

    Args:
      config: whose `session_creation_timeout_secs` to wait for the others.

    Returns:
      The `tf.distribute` strategy, which every estimator of the process is going to use; or None.

    >>> import estimand as est
    >>> est.join_cluster() is None  # there is no TF_CONFIG
    True
    """
    config = RunConfig() if config is None else config
    serves = config.num_ps_replicas > 0 and config.task_type in (TaskType.WORKER, TaskType.PS)
    return None if serves else make_strategy(config)
