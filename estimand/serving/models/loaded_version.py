"""A loaded version in use: its lanes, and how many requests it is answering."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from types import TracebackType

import numpy as np

from estimand.serving.batching.batches import BatchSettings
from estimand.serving.batching.lane import Lane, Waiting
from estimand.serving.batching.pending_lane import PendingLane
from estimand.serving.batching.programs import Program
from estimand.serving.json.slots import PlainSignature
from estimand.serving.models.servable import Servable, Slot
from estimand.serving.status import StatusError

_MOST_CHOICES = 8


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
        self.plans: dict[object, object] = {}  # of Predict; go with the version
        self.plain_signatures = {
            key: PlainSignature.of(signature) for key, signature in servable.signatures.items()
        }
        self.metadata_json: bytes | None = None  # kept when it was asked for first
        # Of large answers one at a time: more would leave less of Python's time to the event loop.
        self.writing = asyncio.Semaphore(1)
        self._running = running
        self._batches = batches
        self._lanes: dict[Program, Lane] = {}
        self._pending_lanes: dict[object, PendingLane] = {}
        self._choices: set[object] = set()
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

    def has_room_for(self, choice: object) -> bool:
        """Whether these of a signature's outputs may have a program of their own. What clients
        choose decides how many that would be."""
        if choice not in self._choices and len(self._choices) < _MOST_CHOICES:
            self._choices.add(choice)
        return choice in self._choices

    def lane(self, inputs: Sequence[Slot], outputs: Sequence[Slot]) -> Lane | PendingLane:
        program = self.servable.made_program(inputs, outputs)
        if program is not None:
            return self._lane_of(program)
        key = (*(slot.tensor for slot in inputs), "", *(slot.tensor for slot in outputs))
        pending = self._pending_lanes.get(key)
        if pending is None:
            making = asyncio.ensure_future(self._make(inputs, outputs))
            pending = PendingLane(making, self._running.waiting.limit)
            self._pending_lanes[key] = pending
            making.add_done_callback(functools.partial(self._is_made, key))
        return pending

    def _is_made(self, key: object, making: asyncio.Future[Lane]) -> None:
        del self._pending_lanes[key]
        if making.cancelled() or making.exception() is not None:
            self.plans.clear()  # whoever asks again, asks for it to be tried again

    async def _make(self, inputs: Sequence[Slot], outputs: Sequence[Slot]) -> Lane:
        loop = asyncio.get_running_loop()
        with self:  # it must not be unloaded meanwhile
            make = self.servable.program
            return self._lane_of(await loop.run_in_executor(None, make, inputs, outputs))

    def _lane_of(self, program: Program) -> Lane:
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
