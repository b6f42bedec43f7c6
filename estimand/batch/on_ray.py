"""The shards of a job, by actors of a Ray cluster. Needs `estimand[ray]`."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import Any

from estimand.batch.plan import Job
from estimand.batch.processes import ATTEMPTS, Outcome
from estimand.batch.worker import Worker
from estimand.core.errors import BatchError, MissingExtraError

LOCAL = "local"  # a cluster of this machine, which is started and ended with the job


def run(job: Job, numbers: Sequence[int], workers: int, address: str) -> Iterator[Outcome]:
    """Work on shards, and give what became of each as it is known.

    Model, input and output have to be found under the same paths on every machine.
    """
    ray = _ray()
    begun_here = not ray.is_initialized()
    if begun_here:
        _connect(ray, address, workers)
    try:
        yield from _Team(ray, job, min(workers, len(numbers))).outcomes(numbers)
    finally:
        if begun_here:
            ray.shutdown()


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise MissingExtraError("working on Ray", "ray") from None
    return ray


def _connect(ray: Any, address: str, workers: int) -> None:
    room = {"num_cpus": workers} if address == LOCAL else {}
    try:
        ray.init(address=address, log_to_driver=False, logging_level="warning", **room)
    except ConnectionError as error:
        raise BatchError(
            f"There is no Ray cluster at {address!r}: {error} Start one: `ray start --head`; or "
            f"leave the address out for one on this machine."
        ) from error


class _Team:
    """Actors, each with what it needs loaded, and a shard at a time for each.

    A cluster may have room for some of them only: a shard is given to an actor that has begun.
    """

    def __init__(self, ray: Any, job: Job, count: int) -> None:
        self._ray = ray
        self._arguments = (job.output, job.task.for_workers())
        self._actor = ray.remote(max_restarts=0, num_cpus=1)(Worker)
        self._idle: list[Any] = []
        self._running: dict[Any, tuple[int | None, Any]] = {}  # None: beginning
        self._deaths: collections.Counter[int | None] = collections.Counter()
        for _ in range(count):
            self._start()

    def _start(self) -> None:
        actor = self._actor.remote(*self._arguments)
        self._running[actor.begun.remote()] = None, actor

    def outcomes(self, numbers: Sequence[int]) -> Iterator[Outcome]:
        left = collections.deque(numbers)
        finished = 0
        while finished < len(numbers):
            while left and self._idle:
                actor, number = self._idle.pop(), left.popleft()
                self._running[actor.do.remote(number)] = number, actor
            (done,), _ = self._ray.wait(list(self._running))
            known, actor = self._running.pop(done)
            outcome = None
            try:
                answer = self._ray.get(done)
            except self._ray.exceptions.RayActorError as error:
                outcome = self._death(known, error)
                self._start()
                if outcome is None and known is not None:
                    left.appendleft(known)
            else:
                self._idle.append(actor)
                outcome = None if known is None else Outcome(known, **answer)
            if outcome is not None:
                finished += 1
                yield outcome

    def _death(self, number: int | None, error: Exception) -> Outcome | None:
        """None if the same is to be tried again."""
        self._deaths[number] += 1
        if self._deaths[number] < ATTEMPTS:
            return None
        if number is None:
            raise BatchError(f"Processes do not come to begin: {error}")
        return Outcome(number, failure=f"{ATTEMPTS} processes died of it: {error}")
