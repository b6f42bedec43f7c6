"""The shards of a job, by actors of a Ray cluster. Needs `estimand[ray]`."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
from typing import Any

from estimand.batch.plan import Job
from estimand.batch.processes import ATTEMPTS, Outcome
from estimand.batch.worker import Work
from estimand.core.errors import BatchError, MissingExtraError

LOCAL = "local"  # a cluster of this machine, which is started and ended with the job


def run(job: Job, numbers: Sequence[int], workers: int, address: str) -> Iterator[Outcome]:
    """Work on shards, and give what became of each as it is known.

    Export, input and output have to be found under the same paths on every machine.
    """
    ray = _ray()
    begun_here = not ray.is_initialized()
    if begun_here:
        _connect(ray, address)
    try:
        yield from _Team(ray, job, min(workers, len(numbers))).outcomes(numbers)
    finally:
        if begun_here:
            ray.shutdown()


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise MissingExtraError("predicting on Ray", "ray") from None
    return ray


def _connect(ray: Any, address: str) -> None:
    try:
        ray.init(address=address, log_to_driver=False, logging_level="warning")
    except ConnectionError as error:
        raise BatchError(
            f"There is no Ray cluster at {address!r}: {error} Start one: `ray start --head`; or "
            f"leave the address out for one on this machine."
        ) from error


class _Team:
    """Actors, each with the model loaded, and a shard at a time for each."""

    def __init__(self, ray: Any, job: Job, count: int) -> None:
        self._ray = ray
        self._arguments = (job.output, job.export, job.batch_size)
        self._actor = ray.remote(max_restarts=0, num_cpus=1)(Work)
        self._idle = [self._start() for _ in range(count)]
        self._deaths: collections.Counter[int] = collections.Counter()

    def _start(self) -> Any:
        return self._actor.remote(*self._arguments)

    def outcomes(self, numbers: Sequence[int]) -> Iterator[Outcome]:
        left = collections.deque(numbers)
        running: dict[Any, tuple[int, Any]] = {}
        while left or running:
            while left and self._idle:
                actor, number = self._idle.pop(), left.popleft()
                running[actor.predict.remote(number)] = number, actor
            (done,), _ = self._ray.wait(list(running))
            number, actor = running.pop(done)
            outcome = self._outcome(done, number)
            self._idle.append(actor if outcome is not None else self._start())
            if outcome is None:
                left.appendleft(number)
            else:
                yield outcome

    def _outcome(self, done: Any, number: int) -> Outcome | None:
        """None if the actor died, and the shard is to be tried again."""
        errors = self._ray.exceptions
        try:
            return Outcome(number, **self._ray.get(done))
        except errors.RayTaskError as error:
            raise BatchError(f"A process that was to predict could not begin: {error}") from error
        except errors.RayActorError as error:
            self._deaths[number] += 1
            if self._deaths[number] < ATTEMPTS:
                return None
            return Outcome(number, failure=f"{ATTEMPTS} processes died of it: {error}")
