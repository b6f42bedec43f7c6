"""The processes of a cluster in a Ray cluster: each beside an actor that starts and watches it.

An actor says at which address its machine is reached, so that every TF_CONFIG can be written before
the first process starts. Should it die, or the one who launched it, its process dies with it; one
that was lost with its machine has a successor on another one. Needs `estimand[ray]`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from typing import IO, Any

from estimand.cluster.addresses import free_ports
from estimand.cluster.description import ClusterDescription, Task
from estimand.cluster.processes import Child, Guard
from estimand.core.errors import ClusterError, MissingExtraError

LOCAL = "local"  # a Ray cluster of this machine, which is started and ended with the job
_SECONDS_FOR_ROOM = 120.0
_LOST = 128 + signal.SIGKILL


class OnRay:
    """Machines of a Ray cluster.

    Attributes:
      address: of the Ray cluster; "auto" for the one that this machine is part of.
      cpus: how many each process takes.
    """

    def __init__(self, address: str, cpus: float = 1.0) -> None:
        self._address, self._cpus = address, cpus
        self._hosts: dict[Task, Any] = {}

    def __enter__(self) -> OnRay:
        try:
            import ray
        except ImportError:
            raise MissingExtraError("launching on Ray", "ray") from None
        self._ray = ray
        self._begun_here = not ray.is_initialized()
        return self

    def __exit__(self, *error: object) -> None:
        for host in self._hosts.values():
            self._ray.kill(host)
        if self._begun_here:
            self._ray.shutdown()

    def tf_configs(self, cluster: ClusterDescription) -> dict[Task, str]:
        """Asked again, it finds another machine for each process whose own is lost."""
        tasks = cluster.tasks()
        if not self._hosts:
            self._connect(len(tasks))
        # Several calls at a time: a process is signalled while its output is waited for.
        actor = self._ray.remote(max_concurrency=4, num_cpus=self._cpus)(Host)
        found: dict[Task, str] = {}
        while missing := [task for task in tasks if task not in found]:
            self._hosts |= {task: actor.remote() for task in missing if task not in self._hosts}
            asked = {task: self._hosts[task].address.remote() for task in missing}
            for task, answer in asked.items():
                try:
                    found[task] = self._ray.get(answer, timeout=_SECONDS_FOR_ROOM)
                except self._ray.exceptions.GetTimeoutError:
                    self._ray.kill(self._hosts.pop(task))
                    raise self._no_room(len(tasks)) from None
                except self._ray.exceptions.RayActorError:
                    self._ray.kill(self._hosts.pop(task))  # it may only be out of reach
        return {task: cluster.tf_config(task, found.__getitem__) for task in tasks}

    def has_lost(self, task: Task) -> bool:
        try:
            self._ray.get(self._hosts[task].address.remote())
        except self._ray.exceptions.RayActorError:
            return True
        return False

    def _no_room(self, count: int) -> ClusterError:
        here = self._ray.get_runtime_context().get_node_id()
        if not any(node["Alive"] and node["NodeID"] == here for node in self._ray.nodes()):
            return ClusterError(
                "The Ray process of this machine, which owns the job, has ended: no other machine "
                "can be found for what was lost. Start it again (`ray start --address=...`), and "
                "launch again: training goes on from its last checkpoint."
            )
        return ClusterError(
            f"The Ray cluster has no room for {count} processes of {self._cpus:g} CPUs: "
            f"it did not start them within {_SECONDS_FOR_ROOM:.0f} s. It has "
            f"{self._ray.cluster_resources().get('CPU', 0):g} CPUs."
        )

    def _connect(self, count: int) -> None:
        if not self._begun_here:
            return
        room = {"num_cpus": count * self._cpus} if self._address == LOCAL else {}
        try:
            self._ray.init(
                address=self._address, log_to_driver=False, logging_level="warning", **room
            )
        except ConnectionError as error:
            raise ClusterError(
                f"There is no Ray cluster at {self._address!r}: {error} Start one: "
                "`ray start --head`; or leave the address out for one on this machine."
            ) from error

    def start(self, task: Task, command: Sequence[str], environ: Mapping[str, str]) -> RayChild:
        return RayChild(self._ray, self._hosts[task], command[1:], environ)


class Host:
    """An actor: starts a program on its machine, with its interpreter, and hands on its output."""

    def __init__(self) -> None:
        import ray

        self._guard = Guard()
        self._child: Child | None = None
        host = ray.util.get_node_ip_address()
        self._address = f"{f'[{host}]' if ':' in host else host}:{free_ports(1)[0]}"

    def address(self) -> str:
        return self._address

    def start(self, arguments: Sequence[str], environ: Mapping[str, str], folder: str) -> None:
        if os.path.isdir(folder):
            os.chdir(folder)
        self._child = Child([sys.executable, *arguments], {**os.environ, **environ}, self._guard)

    def read(self) -> bytes:
        """What it prints next; nothing at the end."""
        assert self._child is not None
        return os.read(self._child.output.fileno(), 65536)

    def wait(self) -> int:
        assert self._child is not None
        return self._child.wait()

    def signal(self, number: int) -> None:
        assert self._child is not None
        self._child.signal(number)

    def sweep(self) -> None:
        assert self._child is not None
        self._child.sweep()


class RayChild:
    """A program beside an actor, as if it were a child of this process."""

    def __init__(
        self, ray: Any, host: Any, arguments: Sequence[str], environ: Mapping[str, str]
    ) -> None:
        self._ray, self._host = ray, host
        self._code: int | None = None
        ours, theirs = os.pipe()
        self._output = os.fdopen(ours, "rb", buffering=0)
        ray.get(host.start.remote(list(arguments), dict(environ), os.getcwd()))
        threading.Thread(target=self._follow, args=(theirs,), daemon=True).start()

    def _follow(self, pipe: int) -> None:
        with os.fdopen(pipe, "wb", buffering=0) as output, contextlib.suppress(BrokenPipeError):
            try:
                while data := self._ray.get(self._host.read.remote()):
                    output.write(data)
                self._code = self._ray.get(self._host.wait.remote())
            except self._ray.exceptions.RayError as error:
                output.write(f"The machine or the actor is lost: {error}\n".encode())
                self._code = _LOST

    @property
    def output(self) -> IO[bytes]:
        return self._output

    def exit_code(self) -> int | None:
        return self._code

    def signal(self, number: int) -> None:
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.get(self._host.signal.remote(number))

    def sweep(self) -> None:
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.get(self._host.sweep.remote())
        self._output.close()
