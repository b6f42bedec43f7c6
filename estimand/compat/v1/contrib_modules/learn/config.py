"""`tf.contrib.learn.RunConfig`: the settings of a session among those of a run."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from estimand.core import config

v1 = tf.compat.v1


class RunConfig(config.RunConfig):
    """An `est.RunConfig` with the arguments of 2016, in their order.

    `master` and `evaluation_master` are accepted and have no effect: where a process stands in a
    cluster, `TF_CONFIG` says.

    >>> RunConfig(save_checkpoints_steps=500, gpu_memory_fraction=0.5).save_checkpoints_steps
    500
    """

    def __init__(
        self,
        master: str | None = None,
        num_cores: int = 0,
        log_device_placement: bool = False,
        gpu_memory_fraction: float = 1,
        tf_random_seed: int | None = None,
        save_summary_steps: int | None = 100,
        save_checkpoints_secs: float | None = config._DEFAULT,
        save_checkpoints_steps: int | None = None,
        keep_checkpoint_max: int | None = 5,
        keep_checkpoint_every_n_hours: float | None = 10000,
        log_step_count_steps: int | None = 100,
        protocol: str | None = None,
        evaluation_master: str = "",
        model_dir: Any = None,
        session_config: Any = None,
        session_creation_timeout_secs: int | None = 7200,
        **others: Any,
    ) -> None:
        del master, evaluation_master
        if session_config is None:
            session_config = _session_config(num_cores, log_device_placement, gpu_memory_fraction)
        if save_checkpoints_steps is None:
            # Given as None, seconds and steps both mean never; not given, seconds mean 600.
            save_checkpoints_steps = config._DEFAULT
        super().__init__(
            model_dir,
            tf_random_seed,
            save_summary_steps,
            save_checkpoints_steps,
            save_checkpoints_secs,
            session_config,
            keep_checkpoint_max,
            keep_checkpoint_every_n_hours,
            log_step_count_steps,
            protocol=protocol,
            session_creation_timeout_secs=session_creation_timeout_secs,
            **others,
        )

    @property
    def tf_config(self) -> Any:
        """The settings of a session."""
        return self.session_config

    @property
    def environment(self) -> str:
        return "local" if not self.cluster_spec else "cloud"

    def uid(self, whitelist: Any = None) -> str:
        """A text that is the same for the same settings."""
        del whitelist
        return repr(self)


def _session_config(num_cores: int, log_placement: bool, gpu_memory: float) -> Any:
    if num_cores == 0 and not log_placement and gpu_memory in (None, 1):
        return None
    made = v1.ConfigProto(
        log_device_placement=log_placement,
        inter_op_parallelism_threads=num_cores,
        intra_op_parallelism_threads=num_cores,
    )
    if gpu_memory not in (None, 1):
        made.gpu_options.per_process_gpu_memory_fraction = gpu_memory
    return made
