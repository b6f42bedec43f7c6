"""`estimand launch --ray` where Ray is played: actors are threads, a lost machine is a raised hand.

With a real Ray: test_on_ray.py and test_ray_nodes.py, where it is installed.
"""

from __future__ import annotations

import io
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from estimand.cluster import on_ray
from estimand.cluster.description import ClusterDescription
from estimand.cluster.local_job import LocalJob
from estimand.cluster.on_ray import OnRay

SECONDS = 60
# Each leaves its TF_CONFIG, and stays until it is told to go; the chief ends all.
PROGRAM = """
import os, pathlib, sys, time
folder = pathlib.Path(sys.argv[1])
config = os.environ["TF_CONFIG"]
unfinished = folder / f"{os.getpid()}.unfinished"
unfinished.write_text(config)
unfinished.rename(folder / f"{os.getpid()}.json")
while not (folder / "end").exists():
    time.sleep(0.02)
"""


class RayError(Exception):
    pass


class RayActorError(RayError):
    pass


class GetTimeoutError(RayError):
    pass


class Actor:
    """The handle of a Host: each call is a thread's."""

    def __init__(self, host: on_ray.Host | None) -> None:
        self.host, self.is_lost = host, False
        self.calls = ThreadPoolExecutor(4)

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=lambda *given: self.calls.submit(self._call, name, given))

    def _call(self, name: str, given: Any) -> Any:
        if self.host is None:
            raise GetTimeoutError
        answer = None if self.is_lost else getattr(self.host, name)(*given)
        if self.is_lost:
            raise RayActorError
        return answer

    def lose(self) -> None:
        self.is_lost = True
        if self.host is not None and self.host._child is not None:
            self.host._child.signal(signal.SIGKILL)


class Ray:
    """What is used of the module."""

    exceptions = SimpleNamespace(
        RayError=RayError, RayActorError=RayActorError, GetTimeoutError=GetTimeoutError
    )
    util = SimpleNamespace(get_node_ip_address=lambda: "127.0.0.1")

    def __init__(self) -> None:
        self.actors: list[Actor] = []
        self.has_room = True
        self.has_this_machine = True

    def is_initialized(self) -> bool:
        return True

    def remote(self, **options: Any) -> Any:
        def start() -> Actor:
            self.actors.append(Actor(on_ray.Host() if self.has_room else None))
            return self.actors[-1]

        return lambda kind: SimpleNamespace(remote=start)

    def get(self, answer: Future[Any], timeout: float | None = None) -> Any:
        return answer.result(timeout)

    def kill(self, actor: Actor) -> None:
        actor.lose()
        if actor.host is not None:
            actor.host._guard.end()

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 4.0}

    def get_runtime_context(self) -> Any:
        return SimpleNamespace(get_node_id=lambda: "here")

    def nodes(self) -> list[dict[str, Any]]:
        others = [{"NodeID": "there", "Alive": True}]
        return [*others, {"NodeID": "here", "Alive": self.has_this_machine}]

    def actor_at(self, address: str) -> Actor:
        [found] = [a for a in self.actors if a.host and a.host.address() == address]
        return found


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ray]:
    played = Ray()
    monkeypatch.setitem(sys.modules, "ray", played)  # type: ignore[arg-type]
    yield played
    for actor in played.actors:
        actor.calls.shutdown()


class Job:
    """Two workers, of which one is enough, a server and a chief."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.said = folder, io.StringIO()
        (folder / "program.py").write_text(PROGRAM)
        command = [sys.executable, str(folder / "program.py"), str(folder)]
        cluster = ClusterDescription(workers=2, ps=1, min_workers=1)
        self._job = LocalJob(cluster, command, self.said, restarts=1, place=OnRay("auto"))
        self.code: int | None = None

    def run(self) -> None:
        self.code = self._job.run()

    def configs(self, count: int) -> list[dict[str, Any]]:
        """What the first processes were told, when there are so many."""
        end = time.monotonic() + SECONDS
        while len(found := list(self.folder.glob("*.json"))) < count:
            assert time.monotonic() < end, self.said.getvalue()
            time.sleep(0.02)
        found.sort(key=lambda path: path.stat().st_mtime_ns)
        return [json.loads(path.read_text()) for path in found]

    def wait_until_said(self, what: str) -> None:
        end = time.monotonic() + SECONDS
        while what not in self.said.getvalue():
            assert time.monotonic() < end, self.said.getvalue()
            time.sleep(0.02)


@pytest.fixture
def job(tmp_path: Path, ray: Ray, monkeypatch: pytest.MonkeyPatch) -> Iterator[Job]:
    made = Job(tmp_path)
    # Only the first thread of a process may have signals, or start what dies with it.
    monkeypatch.setattr(signal, "signal", lambda number, handler: handler)
    monkeypatch.setattr("estimand.cluster.processes._die_with_parent", lambda: None)
    thread = threading.Thread(target=made.run)
    thread.start()
    yield made
    (tmp_path / "end").touch()
    thread.join(SECONDS)
    assert made.code == 0, made.said.getvalue()


def worker_0(configs: list[dict[str, Any]]) -> list[str]:
    """Its address by what it was told itself, each time that it was started."""
    mine = [c for c in configs if c["task"] == {"type": "worker", "index": 0}]
    return [config["cluster"]["worker"][0] for config in mine]


def test_all_are_told_how_many_workers_are_enough_and_one_may_move(job: Job, ray: Ray) -> None:
    begun = job.configs(4)
    assert [config["min_workers"] for config in begun] == [1] * 4
    [before] = worker_0(begun)
    ray.actor_at(before).lose()
    told = job.configs(5)
    _, after = worker_0(told)  # it alone was started again
    assert after != before and told[4]["min_workers"] == 1
    job.wait_until_said("Starting worker 0 again (1 of 1).")
    job.wait_until_said("The machine of worker 0 is lost: another is looked for.")


def test_one_for_which_no_machine_is_left_is_done_without(job: Job, ray: Ray) -> None:
    [before] = worker_0(job.configs(4))
    ray.has_room = False
    ray.actor_at(before).lose()
    job.wait_until_said("Training goes on without it.")
    job.wait_until_said("The Ray cluster has no room for 4 processes of 1 CPUs")


def test_it_is_told_when_the_machine_that_owns_the_job_is_the_one_that_is_lost(
    job: Job, ray: Ray
) -> None:
    [before] = worker_0(job.configs(4))
    ray.has_room = ray.has_this_machine = False
    ray.actor_at(before).lose()
    job.wait_until_said("The Ray process of this machine, which owns the job, has ended")
