"""The settings of `tf.compat.v1.estimator.tpu`: checked as they were, and of no effect on CPUs."""

from __future__ import annotations

import json
import os
import re
from typing import Any, NamedTuple

import tensorflow as tf

from estimand.core import config as run_config
from estimand.core.errors import ConfigError, EstimandError

_CORES = (1, 2, 4, 8, 16, 32, 64, 128)
_DURATION = re.compile(r"([1-9]\d*)([smh]?)")
_SECONDS = {"s": 1, "m": 60, "h": 3600}


class _NotAnIntegerError(EstimandError, TypeError):
    """A size that is no whole number."""


class InputPipelineConfig:
    """How a TPU host read its input; accepted and of no effect here."""

    PER_SHARD_V1 = 1
    PER_HOST_V1 = 2
    PER_HOST_V2 = 3
    BROADCAST = 4
    SLICED = 5


class IterationsPerLoopCounter(NamedTuple):
    """`iterations_per_loop` as a number of "count" or of "seconds"."""

    value: int
    unit: str


def parse_iterations_per_loop(iterations_per_loop: Any) -> IterationsPerLoopCounter:
    """A number of steps, or a duration like "300s", "5m" or "1h".

    >>> parse_iterations_per_loop("5m")
    IterationsPerLoopCounter(value=300, unit='seconds')
    """
    if isinstance(iterations_per_loop, int):
        check_positive_integer(iterations_per_loop, "TPUConfig.iterations_per_loop")
        return IterationsPerLoopCounter(iterations_per_loop, "count")
    match = _DURATION.fullmatch(str(iterations_per_loop))
    if match is None:
        raise ConfigError(
            "Invalid TPUConfig `iterations_per_loop` value. Value must be positive number of steps "
            f"or a duration like '300s', '5m', '1h', given: {iterations_per_loop!r}."
        )
    number, unit = int(match[1]), match[2]
    if not unit:
        return IterationsPerLoopCounter(number, "count")
    return IterationsPerLoopCounter(number * _SECONDS[unit], "seconds")


def check_positive_integer(value: Any, name: str) -> None:
    """Complain about anything but a whole number above 0."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise _NotAnIntegerError(f"{name} must be int, given: {value!r}.")
    if value <= 0:
        raise ConfigError(f"{name} must be positive, given: {value!r}.")


class _Settings(NamedTuple):
    iterations_per_loop: Any = 2
    num_shards: int | None = None
    num_cores_per_replica: int | None = None
    per_host_input_for_training: Any = True
    tpu_job_name: str | None = None
    initial_infeed_sleep_secs: int | None = None
    input_partition_dims: Any = None
    eval_training_input_configuration: int = InputPipelineConfig.PER_HOST_V1
    experimental_host_call_every_n_steps: int = 1
    experimental_allow_per_host_v2_parallel_get_next: bool = False
    experimental_feed_hook: Any = None


class TPUConfig(_Settings):
    """Settings of TPU training loops; checked, and of no effect here.

    >>> TPUConfig(num_shards=8).num_shards
    8
    """

    def __new__(cls, *args: Any, **kwargs: Any) -> TPUConfig:
        made = super().__new__(cls, *args, **kwargs)
        parse_iterations_per_loop(made.iterations_per_loop)
        if made.num_shards is not None:
            check_positive_integer(made.num_shards, "TPUConfig.num_shards")
        if made.num_cores_per_replica not in (None, *_CORES):
            raise ConfigError(
                "num_cores_per_replica must be 1, 2, 4, 8, 16, 32, 64, 128; "
                f"got {made.num_cores_per_replica}"
            )
        if made.tpu_job_name is None:
            made = made._replace(tpu_job_name=_job_name_of_environment())
        return made


class RunConfig(run_config.RunConfig):
    """A RunConfig that also carries a `TPUConfig`.

    >>> config = RunConfig(tpu_config=TPUConfig(iterations_per_loop=100), save_summary_steps=5)
    >>> config.tpu_config.iterations_per_loop, config.replace(save_summary_steps=7).tpu_config[0]
    (100, 100)
    """

    def __init__(
        self,
        tpu_config: TPUConfig | None = None,
        evaluation_master: str | None = None,
        master: str | None = None,
        cluster: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._tpu_config = tpu_config or TPUConfig()
        self._resolver = cluster
        if master is not None:
            self._master = master
        if evaluation_master is not None:
            self._evaluation_master = evaluation_master
        elif not self._evaluation_master and self.task_type != run_config.TaskType.EVALUATOR:
            self._evaluation_master = self._master

    @property
    def tpu_config(self) -> TPUConfig:
        """The settings of TPU loops."""
        return self._tpu_config

    @property
    def session_config(self) -> tf.compat.v1.ConfigProto | None:
        """The `ConfigProto` given; no device filters of a cluster, which are not for TPUs."""
        return self._session_config

    @property
    def cluster(self) -> Any:
        """The cluster resolver given, if any."""
        return self._resolver

    def replace(self, **kwargs: Any) -> RunConfig:
        """A copy with the given settings changed, `tpu_config` among them."""
        changes = dict(kwargs)
        tpu_config = changes.pop("tpu_config", self._tpu_config)
        changed: Any = super().replace(**changes)
        changed._tpu_config = tpu_config
        return changed


def _job_name_of_environment() -> str | None:
    service = json.loads(os.environ.get("TF_CONFIG") or "{}").get("service", {})
    return service.get("tpu_worker_job_name") if isinstance(service, dict) else None
