"""One description of a cluster, from which every `TF_CONFIG` of its processes follows."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from estimand.core.errors import ConfigError
from estimand.core.tf_config import TaskType

_ONE_OF_A_KIND = (TaskType.CHIEF, TaskType.MASTER, TaskType.EVALUATOR)


@dataclass(frozen=True)
class Task:
    """A process of the cluster.

    >>> str(Task("worker", 1)), str(Task("chief", 0))
    ('worker 1', 'chief')
    """

    role: str
    index: int

    def __str__(self) -> str:
        return self.role if self.role in _ONE_OF_A_KIND else f"{self.role} {self.index}"


@dataclass(frozen=True)
class ClusterDescription:
    """How many processes there are of each role; the chief is always there, and counts as none.

    >>> cluster = ClusterDescription(workers=2, ps=1, evaluator=True)
    >>> [str(task) for task in cluster.tasks()]
    ['chief', 'worker 0', 'worker 1', 'ps 0', 'evaluator']
    >>> print(cluster.tf_config(Task("ps", 0), lambda task: f"{task.role}{task.index}:2222"))
    {"cluster": {"chief": ["chief0:2222"], "worker": ["worker0:2222", "worker1:2222"],
    "ps": ["ps0:2222"]}, "task": {"type": "ps", "index": 0}}
    """

    workers: int = 0
    ps: int = 0
    evaluator: bool = False
    min_workers: int | None = None  # to begin with; the others may come later. None: all

    def __post_init__(self) -> None:
        if self.workers < 0 or self.ps < 0:
            raise ConfigError(
                f"A cluster cannot have {self.workers} workers and {self.ps} parameter servers: "
                "the numbers must be 0 or more."
            )
        if self.ps and not self.workers:
            raise ConfigError(
                f"A cluster with {self.ps} parameter servers needs at least one worker: the chief "
                "drives the workers and does not compute itself. Add --workers 1."
            )
        if self.min_workers is not None and not (self.ps and 1 <= self.min_workers <= self.workers):
            raise ConfigError(
                f"--min-workers {self.min_workers} must be from 1 to the number of --workers "
                f"({self.workers}), in a cluster with parameter servers (--ps {self.ps}): only "
                "there may workers come later."
            )

    @property
    def has_servers(self) -> bool:
        """Whether workers and parameter servers serve, and the chief drives them."""
        return self.ps > 0

    def counts(self) -> dict[str, int]:
        """How many there are of each role that is there at all."""
        counts = {
            TaskType.CHIEF: 1,
            TaskType.WORKER: self.workers,
            TaskType.PS: self.ps,
            TaskType.EVALUATOR: int(self.evaluator),
        }
        return {role: count for role, count in counts.items() if count}

    def tasks(self) -> list[Task]:
        return [
            Task(role, index) for role, count in self.counts().items() for index in range(count)
        ]

    def cluster(self, address: Callable[[Task], str]) -> dict[str, list[str]]:
        """Addresses by role. The evaluator works beside the cluster and is not in it."""
        return {
            role: [address(Task(role, index)) for index in range(count)]
            for role, count in self.counts().items()
            if role != TaskType.EVALUATOR
        }

    def tf_config(self, task: Task, address: Callable[[Task], str]) -> str:
        """The value of the environment variable `TF_CONFIG` for one process."""
        return json.dumps(self.told(task.role, task.index, address))

    def told(self, role: str, index: int | str, address: Callable[[Task], str]) -> dict[str, Any]:
        """What `TF_CONFIG` says."""
        cluster = {"cluster": self.cluster(address), "task": {"type": role, "index": index}}
        least = {} if self.min_workers is None else {"min_workers": self.min_workers}
        return {**cluster, **least}
