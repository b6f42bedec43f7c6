"""`tf.train.SyncReplicasOptimizer` inside of an Estimator.

It let workers of parameter servers wait for each other, by queues that a session filled. In a
process that trains alone there is nobody to wait for; with parameter servers workers do not wait
here, and strategies add up gradients themselves.
"""

from __future__ import annotations

import logging
from typing import Any

import tensorflow as tf

from estimand.engine.variables.traced_variables import is_traced
from estimand.hooks import SessionRunHook

_log = logging.getLogger("tensorflow")
_Original = tf.compat.v1.train.SyncReplicasOptimizer


class SyncReplicasOptimizer(_Original):  # type: ignore[misc, valid-type]
    """That of TensorFlow; in a model function, the optimizer that it was given."""

    def __init__(
        self,
        opt: Any,
        replicas_to_aggregate: int,
        total_num_replicas: int | None = None,
        variable_averages: Any = None,
        variables_to_average: Any = None,
        use_locking: bool = False,
        name: str = "sync_replicas",
    ) -> None:
        super().__init__(
            opt,
            replicas_to_aggregate,
            total_num_replicas,
            variable_averages,
            variables_to_average,
            use_locking,
            name,
        )
        self._inside, self._aggregated = opt, replicas_to_aggregate
        self._averages, self._averaged = variable_averages, variables_to_average

    def apply_gradients(
        self, grads_and_vars: Any, global_step: Any = None, name: str | None = None
    ) -> Any:
        if not _in_model_function():
            return super().apply_gradients(grads_and_vars, global_step, name)
        if self._aggregated > 1:
            _log.warning(
                "SyncReplicasOptimizer(replicas_to_aggregate=%d): workers do not wait for each "
                "other here, each step applies the gradients of one. To wait, train with "
                "RunConfig(train_distribute=tf.distribute.MultiWorkerMirroredStrategy()).",
                self._aggregated,
            )
        pairs = list(grads_and_vars)
        applied = self._inside.apply_gradients(pairs, global_step=global_step, name=name)
        if self._averages is None:
            return applied
        with tf.control_dependencies([applied]):
            return self._averages.apply(self._averaged)

    def make_session_run_hook(self, is_chief: bool, num_tokens: int = -1) -> Any:
        if not _in_model_function():
            return super().make_session_run_hook(is_chief, num_tokens)
        return SessionRunHook()


def _in_model_function() -> bool:
    return is_traced(tf.compat.v1.get_default_graph())
