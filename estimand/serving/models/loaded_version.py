"""A loaded version in use: its lanes, and how many requests it is answering."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from types import TracebackType

import numpy as np

from estimand.serving.batching.batches import BatchSettings
from estimand.serving.batching.lane import Lane, Waiting
from estimand.serving.json.slots import PlainSignature
from estimand.serving.models.programs import Program
from estimand.serving.models.servable import Servable, Slot
from estimand.serving.status import StatusError


@dataclass(frozen=True)
class Running:
    """What lanes share."""

    pool: Executor
    pool_of_loops: Executor  # for what may take any time, so that it takes it from nobody else
    waiting: Waiting
    batches: BatchSettings


class LoadedVersion:
    """A servable with its name. `with version:` keeps it loaded until the block ends."""

    def __init__(
        self, name: str, number: int, servable: Servable, running: Running, batches: BatchSettings
    ) -> None:
        self.name = name
        self.number = number
        self.servable = servable
        self.plans: dict[object, object] = {}  # of `predicting`; go with the version
        self.plain_signatures = {
            key: PlainSignature.of(one) for key, one in servable.signatures.items()
        }
        self._running = running
        self._batches = batches
        self._lanes: dict[Program, Lane] = {}
        self._users = 0
        self._unused: asyncio.Event | None = None

    def enter(self) -> None:
        """Keeps it loaded until `leave` was called as often."""
        self._users += 1

    def leave(self) -> None:
        self._users -= 1
        if not self._users and self._unused is not None:
            self._unused.set()

    def __enter__(self) -> LoadedVersion:
        self.enter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.leave()
        if isinstance(error, StatusError):
            error.model = self.name  # for the metrics

    async def unused(self) -> None:
        """Wait until nobody uses it; no new users may come."""
        if self._users:
            self._unused = asyncio.Event()
            await self._unused.wait()

    def lane(self, inputs: Sequence[Slot], outputs: Sequence[Slot]) -> Lane:
        program = self.servable.program(inputs, outputs)
        lane = self._lanes.get(program)
        if lane is None:
            if len(self._lanes) > 128:  # of programs that the servable has since dropped
                self._lanes.clear()
            running = self._running
            pool = running.pool_of_loops if program.may_wait else running.pool
            lane = Lane(program, self._batches, pool, running.waiting)
            self._lanes[program] = lane
        return lane

    def run_now(
        self, inputs: Sequence[Slot], outputs: Sequence[Slot], arrays: Sequence[np.ndarray]
    ) -> list[np.ndarray]:
        """Blocking, past all lanes: for warming up."""
        return self.servable.program(inputs, outputs).run(arrays)

    def close(self) -> None:
        self._lanes.clear()
        self.plans.clear()
        self.servable.close()
