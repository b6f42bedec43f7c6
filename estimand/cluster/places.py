"""Where the processes of a job run: on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import IO, Protocol

from estimand.cluster.addresses import LOOPBACK, free_ports
from estimand.cluster.description import ClusterDescription, Task
from estimand.cluster.forked import ForkServer
from estimand.cluster.processes import Child, Guard


class AnyChild(Protocol):
    """A program that runs somewhere; what it prints comes out of one pipe."""

    @property
    def output(self) -> IO[bytes]: ...

    def exit_code(self) -> int | None: ...

    def signal(self, number: int) -> None: ...

    def sweep(self) -> None: ...


class Place(Protocol):
    """Knows the addresses of a cluster, and starts its processes. A context: nothing outlives it.

    `environ` is what a process is told beside what it finds there.
    """

    def __enter__(self) -> Place: ...

    def __exit__(self, *error: object) -> None: ...

    def tf_configs(self, cluster: ClusterDescription) -> dict[Task, str]: ...

    def has_lost(self, task: Task) -> bool:
        """Whether the machine is gone: `tf_configs` then has another address for it."""
        ...

    def start(self, task: Task, command: Sequence[str], environ: Mapping[str, str]) -> AnyChild: ...


class LocalMachine:
    """Processes of this machine.

    Attributes:
      modules: what programs find imported, since they are forked from a process that has them,
        where that can be; all of them are the same script then.
    """

    def __init__(self, modules: Sequence[str] = ()) -> None:
        self._modules = modules if ForkServer.is_possible() else ()
        self._server: ForkServer | None = None

    def __enter__(self) -> LocalMachine:
        self._guard = Guard()
        return self

    def __exit__(self, *error: object) -> None:
        if self._server is not None:
            self._server.end()
        self._guard.end()

    def tf_configs(self, cluster: ClusterDescription) -> dict[Task, str]:
        return local_tf_configs(cluster)

    def has_lost(self, task: Task) -> bool:
        return False

    def start(self, task: Task, command: Sequence[str], environ: Mapping[str, str]) -> AnyChild:
        if not self._modules:
            return Child(command, {**os.environ, **environ}, self._guard)
        if self._server is None:
            self._server = ForkServer(self._modules, command, self._guard)
        return self._server.start(environ)


def local_tf_configs(cluster: ClusterDescription) -> dict[Task, str]:
    """`TF_CONFIG` for each process, at ports of this machine that are free now."""
    tasks = cluster.tasks()
    ports = dict(zip(tasks, free_ports(len(tasks)), strict=True))
    return {
        task: cluster.tf_config(task, lambda other: f"{LOOPBACK}:{ports[other]}") for task in tasks
    }
