"""`session_config` without a session: what of a `ConfigProto` TensorFlow 2 can still honour.

`tf.config` settings belong to the process, and most must be made before TensorFlow first runs.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from estimand.core.errors import ConfigError
from estimand.core.tf_config import TaskType

_log = logging.getLogger(__name__)
_told: set[str] = set()

_NESTED = {
    "gpu_options",
    "graph_options",
    "graph_options.optimizer_options",
    "graph_options.rewrite_options",
}
_UNDERSTOOD = {
    "device_count",
    "intra_op_parallelism_threads",
    "inter_op_parallelism_threads",
    "allow_soft_placement",
    "log_device_placement",
    "gpu_options.allow_growth",
    "gpu_options.visible_device_list",
    "graph_options.optimizer_options.global_jit_level",
    # Only made a v1 session start or connect faster: nothing is lost with them.
    "graph_options.rewrite_options.meta_optimizer_iterations",
    "device_filters",
}


def default_session_config() -> tf.compat.v1.ConfigProto:
    """What an estimator uses where the user gave no `session_config`."""
    config = tf.compat.v1.ConfigProto(allow_soft_placement=True)
    rewriting = config.graph_options.rewrite_options
    rewriting.meta_optimizer_iterations = rewriting.ONE
    return config


def cluster_session_config(task_type: str, task_id: int) -> tf.compat.v1.ConfigProto | None:
    """The same for a process in a cluster: it talks to the parameter servers and itself only."""
    filters = {
        TaskType.MASTER: ["/job:ps", "/job:master"],
        TaskType.CHIEF: ["/job:ps", "/job:chief"],
        TaskType.WORKER: ["/job:ps", f"/job:worker/task:{task_id}"],
        TaskType.PS: ["/job:ps", "/job:worker", "/job:chief", "/job:master"],
    }.get(task_type)
    if filters is None:
        return None
    config = default_session_config()
    config.device_filters.extend(filters)
    return config


def apply_session_config(session_config: tf.compat.v1.ConfigProto | None) -> None:
    """Carries a `ConfigProto` over to `tf.config`; warns once about what cannot be honoured.

    A field at its default counts as not given: `allow_soft_placement=False` cannot be told from
    an absent one, so it leaves TensorFlow's own default (True) alone. None is what an estimator
    uses by itself: soft placement, which TensorFlow leaves out where nothing is executed eagerly.
    Being called after TensorFlow has started is not an error: what then comes too late is named
    in the warning.

    >>> apply_session_config(tf.compat.v1.ConfigProto(allow_soft_placement=True))
    """
    if session_config is None:
        if not tf.compat.v1.executing_eagerly_outside_functions():
            _apply_placement(default_session_config())
        return
    too_late: list[str] = []
    gpus = tf.config.list_physical_devices("GPU")
    _apply_threads(session_config, too_late)
    _apply_placement(session_config)
    _apply_cpu_count(session_config, too_late)
    if gpus:
        visible = _choose_gpus(session_config, gpus, too_late)
        _apply_memory_growth(session_config, visible, too_late)
    unknown = [name for name in _given_fields(session_config) if name not in _UNDERSTOOD]
    if not gpus:
        unknown = [name for name in unknown if not name.startswith("gpu_options.")]
    _warn_once(unknown, too_late)


def _apply_threads(config: Any, too_late: list[str]) -> None:
    threading = tf.config.threading
    for field, current, change in (
        (
            "intra_op_parallelism_threads",
            threading.get_intra_op_parallelism_threads,
            threading.set_intra_op_parallelism_threads,
        ),
        (
            "inter_op_parallelism_threads",
            threading.get_inter_op_parallelism_threads,
            threading.set_inter_op_parallelism_threads,
        ),
    ):
        wanted = getattr(config, field)
        if wanted and wanted != current():
            with _unless_started(field, too_late):
                change(wanted)


def _apply_placement(config: Any) -> None:
    if config.allow_soft_placement:
        tf.config.set_soft_device_placement(True)
    if config.log_device_placement:
        tf.debugging.set_log_device_placement(True)
    if config.graph_options.optimizer_options.global_jit_level > 0:
        tf.config.optimizer.set_jit("autoclustering")


def _apply_cpu_count(config: Any, too_late: list[str]) -> None:
    wanted = config.device_count.get("CPU", 0)
    cpus = tf.config.list_physical_devices("CPU")
    if wanted <= 1 or not cpus:
        return
    current = tf.config.get_logical_device_configuration(cpus[0]) or [None]
    if len(current) != wanted:
        with _unless_started("device_count", too_late):
            pieces = [tf.config.LogicalDeviceConfiguration() for _ in range(wanted)]
            tf.config.set_logical_device_configuration(cpus[0], pieces)


def _choose_gpus(config: Any, gpus: list[Any], too_late: list[str]) -> list[Any]:
    """Hides the GPUs that were not asked for; returns those the process sees afterwards."""
    chosen, field = list(gpus), ""
    if config.gpu_options.visible_device_list:
        field = "gpu_options.visible_device_list"
        chosen = _by_index(gpus, config.gpu_options.visible_device_list)
    if "GPU" in config.device_count:
        field = field or "device_count"
        chosen = chosen[: config.device_count["GPU"]]
    if field and chosen != tf.config.get_visible_devices("GPU"):
        with _unless_started(field, too_late):
            tf.config.set_visible_devices(chosen, "GPU")
    return tf.config.get_visible_devices("GPU")


def _by_index(gpus: list[Any], text: str) -> list[Any]:
    try:
        indices = [int(word) for word in text.split(",")]
        if min(indices) < 0:
            raise IndexError
        return [gpus[index] for index in indices]
    except (ValueError, IndexError):
        raise ConfigError(
            f"session_config.gpu_options.visible_device_list must be indices of GPUs separated "
            f"by commas, each from 0 to {len(gpus) - 1}. Given: {text!r}."
        ) from None


def _apply_memory_growth(config: Any, gpus: list[Any], too_late: list[str]) -> None:
    if not config.gpu_options.allow_growth:
        return
    for gpu in gpus:
        if not tf.config.experimental.get_memory_growth(gpu):
            with _unless_started("gpu_options.allow_growth", too_late):
                tf.config.experimental.set_memory_growth(gpu, True)


@contextlib.contextmanager
def _unless_started(field: str, too_late: list[str]) -> Iterator[None]:
    try:
        yield
    except (RuntimeError, ValueError):  # ValueError: a GPU already cut into logical devices.
        if field not in too_late:
            too_late.append(field)


def _given_fields(message: Any, prefix: str = "") -> Iterator[str]:
    for descriptor, value in message.ListFields():
        name = prefix + descriptor.name
        if name in _NESTED:
            yield from _given_fields(value, name + ".")
        else:
            yield name


def _warn_once(unknown: list[str], too_late: list[str]) -> None:
    parts = []
    if unknown:
        parts.append(f"{', '.join(unknown)} (no counterpart without a session)")
    if too_late:
        parts.append(
            f"{', '.join(too_late)} (TensorFlow is already running; "
            "set it before the first TensorFlow call)"
        )
    sentence = f"session_config: no effect of {' and of '.join(parts)}."
    if parts and sentence not in _told:
        _told.add(sentence)
        _log.warning(sentence)
