"""Who am I in the cluster: the environment variable `TF_CONFIG`, read once and checked.

Two dialects are understood. The one of `tf.estimator` names a chief and keeps the evaluator
outside the cluster. The one of TensorFlow 2's strategies may list the evaluator inside it, and
may name no chief, in which case worker 0 plays its part. Only with parameter servers there has to
be one: it drives the workers and is none of them.
"""

from __future__ import annotations

import difflib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from estimand.core.errors import ConfigError, EstimandError

_log = logging.getLogger("estimand")

# Others are passed over, as tf.estimator does: schedulers put things of their own there.
_KEYS = (
    "cluster",
    "environment",
    "eval_session_master",
    "min_workers",
    "model_dir",
    "service",
    "session_master",
    "task",
)
_LOCAL = ""  # The address of "this process".
_NOTE = "\n\nNote that these values may be coming from the TF_CONFIG environment variable."


class TaskType:
    """Names of the roles a process may have."""

    MASTER = "master"  # The chief of Cloud ML's days, which also evaluates.
    CHIEF = "chief"
    WORKER = "worker"
    PS = "ps"
    EVALUATOR = "evaluator"


class _ServiceTypeError(EstimandError, TypeError):
    """`service` in TF_CONFIG is not a dict."""


@dataclass(frozen=True)
class TaskConfig:
    """What `TF_CONFIG` says about this process and its cluster; the defaults mean "alone".

    `cluster` maps a role to its addresses by index. It is empty for a process that trains
    alone, and for an evaluator, which works beside the cluster and not in it.
    """

    cluster: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    task_type: str = TaskType.WORKER
    task_id: int = 0
    is_chief: bool = True
    master: str = _LOCAL
    evaluation_master: str = _LOCAL
    num_ps_replicas: int = 0
    num_worker_replicas: int = 1
    global_id_in_cluster: int | None = 0
    service: dict[str, Any] | None = None
    model_dir: str | None = None
    environment: str | None = None
    min_workers: int | None = None


def parse_tf_config(environ: Mapping[str, str]) -> TaskConfig:
    """Reads `TF_CONFIG` out of an environment, e.g. `os.environ`.

    >>> alone = parse_tf_config({})
    >>> alone.is_chief, alone.num_worker_replicas
    (True, 1)
    >>> text = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}'
    >>> one_of_two = parse_tf_config({"TF_CONFIG": text})
    >>> one_of_two.is_chief, one_of_two.global_id_in_cluster, one_of_two.master
    (False, 1, 'grpc://b:1')
    """
    settings = _load(environ.get("TF_CONFIG", ""))
    _warn_of_misspelt(settings)
    common: dict[str, Any] = {
        "service": _checked_service(settings.get("service")),
        "model_dir": _checked_model_dir(settings.get("model_dir")),
        "environment": settings.get("environment"),
    }
    cluster = _checked_cluster(settings.get("cluster"))
    task = _as_object(settings.get("task"), '"task" in TF_CONFIG')
    if not cluster:
        return _alone(settings, task, common)
    chief_type = _chief_type(cluster)
    task_type, task_id = _checked_task(cluster, task)
    if task_type == TaskType.EVALUATOR:
        return _evaluator(settings, chief_type, task_id, common)
    counts_as_worker = {TaskType.WORKER, chief_type}
    return TaskConfig(
        cluster=cluster,
        task_type=task_type,
        task_id=task_id,
        is_chief=task_type == chief_type and task_id == 0,
        master=settings.get("session_master", _address(cluster, task_type, task_id)),
        num_ps_replicas=len(cluster.get(TaskType.PS, {})),
        num_worker_replicas=sum(len(cluster.get(role, {})) for role in counts_as_worker),
        global_id_in_cluster=_global_id(cluster, chief_type, task_type, task_id),
        min_workers=_checked_min_workers(settings.get("min_workers"), cluster),
        **common,
    )


def _alone(settings: dict[str, Any], task: dict[str, Any], common: dict[str, Any]) -> TaskConfig:
    task_type = task.get("type", TaskType.WORKER)
    if task_type != TaskType.WORKER:
        raise ConfigError(
            'If "cluster" is not set in TF_CONFIG, task type must be WORKER. '
            f"Given: {task_type!r}. Add the cluster, or unset TF_CONFIG to train alone."
        )
    if _as_index(task.get("index", 0)) != 0:
        raise ConfigError(
            'If "cluster" is not set in TF_CONFIG, task index must be 0. '
            f"Given: {task['index']!r}. Add the cluster, or unset TF_CONFIG to train alone."
        )
    return TaskConfig(
        master=settings.get("session_master", _LOCAL),
        evaluation_master=settings.get("eval_session_master", _LOCAL),
        **common,
    )


def _evaluator(
    settings: dict[str, Any], chief_type: str, task_id: int, common: dict[str, Any]
) -> TaskConfig:
    if chief_type == TaskType.MASTER:
        raise ConfigError(
            "If `master` node exists in `cluster`, task_type `evaluator` is not supported. "
            "The master evaluates; rename `master` to `chief` to have an evaluator of its own."
        )
    return TaskConfig(
        task_type=TaskType.EVALUATOR,
        task_id=task_id,
        is_chief=False,
        evaluation_master=settings.get("eval_session_master", _LOCAL),
        num_worker_replicas=0,
        global_id_in_cluster=None,
        **common,
    )


def _load(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        settings = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"TF_CONFIG is not valid JSON: {error}. Given: {text!r}.") from error
    return _as_object(settings, "TF_CONFIG")


def _warn_of_misspelt(settings: Mapping[str, Any]) -> None:
    for key in set(settings) - set(_KEYS):
        meant = difflib.get_close_matches(key.lower(), _KEYS, n=1, cutoff=0.8)
        if meant and meant[0] not in settings:
            _log.warning("TF_CONFIG has %r, which nobody reads. Is %r meant?", key, meant[0])


def _as_object(value: Any, where: str) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ConfigError(f"{where} must be a JSON object, given: {value!r}.")
    return value


def _as_index(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ConfigError(f"Task index in TF_CONFIG must be a number, given: {value!r}.") from None


def _checked_service(service: Any) -> dict[str, Any] | None:
    if service is not None and not isinstance(service, dict):
        raise _ServiceTypeError(
            f'If "service" is set in TF_CONFIG, it must be a dict. Given {type(service)}'
        )
    return service


def _checked_model_dir(model_dir: Any) -> str | None:
    if model_dir == "":
        raise ConfigError("model_dir in TF_CONFIG should be non-empty.")
    return model_dir


def _checked_min_workers(number: Any, cluster: Mapping[str, Mapping[int, str]]) -> int | None:
    """How many workers have to be there before training begins; None: all."""
    if number is None:
        return None
    workers = len(cluster.get(TaskType.WORKER, {}))
    if TaskType.PS not in cluster:
        raise ConfigError(
            'TF_CONFIG has "min_workers", but no "ps": only workers beside parameter servers may '
            "come later. Without them all train in step, and none can be done without."
        )
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= workers:
        raise ConfigError(
            f'"min_workers" in TF_CONFIG must be a number from 1 to {workers}, which is how many '
            f'workers "cluster" names. Given: {number!r}.'
        )
    return number


def _checked_cluster(cluster: Any) -> dict[str, dict[int, str]]:
    """Roles to addresses by index; TensorFlow lets a role's addresses be a list or an object."""
    checked = {}
    for role, tasks in _as_object(cluster, '"cluster" in TF_CONFIG').items():
        if isinstance(tasks, dict):
            addresses = {_as_index(index): address for index, address in tasks.items()}
        elif isinstance(tasks, list):
            addresses = dict(enumerate(tasks))
        else:
            addresses = {0: None}
        if not all(isinstance(address, str) for address in addresses.values()):
            raise ConfigError(
                f'"cluster" in TF_CONFIG must give a list of "host:port" for each role; '
                f"{role!r} has {tasks!r}."
            )
        if addresses:
            checked[role] = addresses
    return checked


def _chief_type(cluster: Mapping[str, Mapping[int, str]]) -> str:
    """The role whose task 0 is the chief."""
    if TaskType.MASTER in cluster and TaskType.CHIEF in cluster:
        raise ConfigError(
            "If `master` node exists in `cluster`, job `chief` is not supported. "
            f"Remove one of the two. Given: {_show(cluster)}."
        )
    for role in (TaskType.MASTER, TaskType.CHIEF):
        if len(cluster.get(role, ())) > 1:
            raise ConfigError(
                f'The "cluster" in TF_CONFIG must have only one "{role}" node. '
                f"Given: {_show(cluster)}."
            )
        if role in cluster:
            return role
    if TaskType.PS in cluster:
        raise ConfigError(
            'If "cluster" is set in TF_CONFIG, it must have one "chief" node. Without parameter '
            "servers worker 0 could act as chief; with them it cannot. Add "
            f'"chief": ["host:port"] to the cluster. Given: {_show(cluster)}.'
        )
    if TaskType.WORKER in cluster:
        return TaskType.WORKER
    raise ConfigError(
        'If "cluster" is set in TF_CONFIG, it must have one "chief" node. '
        f"At least one worker will do: worker 0 then acts as chief. Given: {_show(cluster)}."
    )


def _no_chief(cluster: Mapping[str, Any]) -> str:
    if TaskType.CHIEF in cluster or TaskType.MASTER in cluster:
        return ""
    return ' Also, it must have one "chief" node, unless worker 0 is to act as chief.'


def _checked_task(
    cluster: Mapping[str, Mapping[int, str]], task: dict[str, Any]
) -> tuple[str, int]:
    task_type, index = task.get("type"), task.get("index")
    if not task_type:
        raise ConfigError(
            'If "cluster" is set in TF_CONFIG, task type must be set. '
            f'Add "task": {{"type": ..., "index": ...}}; types: {sorted(cluster)}.'
            f"{_no_chief(cluster)}"
        )
    if index is None:
        raise ConfigError(
            'If "cluster" is set in TF_CONFIG, task index must be set. '
            f'Add "index" to the task {task!r}.'
        )
    task_id = _as_index(index)
    if task_id < 0:
        raise ConfigError(f"Task index must be non-negative number. Given: {task_id}.")
    if task_type == TaskType.EVALUATOR:
        return task_type, task_id  # Not part of the training cluster, so nothing to look up.
    if task_type not in cluster:
        raise ConfigError(
            f"{task_type} is not a valid task_type in the cluster_spec:\n{_show(cluster)}{_NOTE}"
        )
    if task_id not in cluster[task_type]:
        raise ConfigError(
            f"{task_id} is not a valid task_id for task_type {task_type} in the cluster_spec:\n"
            f"{_show(cluster)}{_NOTE}"
        )
    return task_type, task_id


def _address(cluster: Mapping[str, Mapping[int, str]], task_type: str, task_id: int) -> str:
    if sum(len(tasks) for tasks in cluster.values()) == 1:
        return _LOCAL  # A cluster of one needs no network.
    return "grpc://" + cluster[task_type][task_id]


def _global_id(
    cluster: Mapping[str, Mapping[int, str]], chief_type: str, task_type: str, task_id: int
) -> int:
    """Position in the order: chief, other roles by name, parameter servers.

    An evaluator listed in the cluster is not counted: users shard their input by this number
    and `num_worker_replicas`, which does not count it either.
    """
    last = {chief_type: 0, TaskType.PS: 2}
    roles = sorted(set(cluster) - {TaskType.EVALUATOR}, key=lambda role: (last.get(role, 1), role))
    before = roles[: roles.index(task_type)]
    return sum(max(cluster[role]) + 1 for role in before) + task_id


def _show(cluster: Mapping[str, Mapping[int, str]]) -> str:
    """The cluster as `tf.train.ClusterSpec` prints itself."""
    dense = {
        role: list(tasks.values()) if list(tasks) == list(range(len(tasks))) else dict(tasks)
        for role, tasks in cluster.items()
    }
    return f"ClusterSpec({dense})"
