"""Which of the two processes has a job."""

from __future__ import annotations

import asyncio
import gzip
import threading
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from estimand.serving.large_json.by_size import MODERATE, JsonBySize
from estimand.serving.large_json.work import Budget, Reading, Writing
from estimand.serving.status import StatusError

BUDGET = Budget(inflated_bytes=8 * MODERATE, values=200_000)


def reading(zipped: bool = False) -> Reading:
    return Reading("predict", zipped, BUDGET, {}, "serving_default")


class Done:
    """In the place of a process."""

    def __init__(self, go_on: threading.Event) -> None:
        self._go_on = go_on
        self.bodies: list[int] = []

    def run(self, job: Any, body: Any, deadline: float) -> int:
        assert self._go_on.wait(60)
        self.bodies.append(len(body))
        return len(body)

    def stop(self) -> None:
        pass


class Processes:
    def __init__(self) -> None:
        self.zipped_goes_on, at_once = threading.Event(), threading.Event()
        at_once.set()
        self.moderate, self.large = Done(at_once), Done(at_once)
        self.zipped = Done(self.zipped_goes_on)
        self.jobs = JsonBySize(BUDGET)
        self.jobs._moderate._process = self.moderate  # type: ignore[assignment]
        self.jobs._large._process = self.large  # type: ignore[assignment]
        self.jobs._zipped._process = self.zipped  # type: ignore[assignment]

    async def run(self, job: Any, body: bytes = b"") -> Any:
        ends = asyncio.get_running_loop().time() + 60
        return await self.jobs.run(job, body, ends, SimpleNamespace(client="me", gone=False))


def test_nobody_else_waits_for_bombs() -> None:
    bomb = gzip.compress(b" " * (4 * MODERATE))
    moderate = b" " * (MODERATE // 2)

    async def ask() -> list[Any]:
        bombs = [asyncio.ensure_future(processes.run(reading(True), bomb)) for _ in range(20)]
        await asyncio.sleep(0)
        found = [
            await processes.run(reading(), moderate),
            await processes.run(reading(True), gzip.compress(moderate)),
            await processes.run(Writing((), [np.zeros(100)], True)),
            await processes.run(reading(), b" " * (3 * MODERATE)),
        ]
        assert not any(one.done() for one in bombs)
        processes.zipped_goes_on.set()
        await asyncio.gather(*bombs)
        processes.jobs.stop()
        return found

    processes = Processes()
    assert asyncio.run(ask()) == [len(moderate), len(moderate), 0, 3 * MODERATE]
    assert processes.moderate.bodies == [len(moderate), len(moderate), 0]
    assert processes.large.bodies == [3 * MODERATE]
    assert processes.zipped.bodies == [len(bomb)] * 20


@pytest.mark.parametrize("job", [reading(), Writing((), [np.zeros(MODERATE)], True)])
def test_what_is_large_waits_with_the_large(job: Any) -> None:
    processes = Processes()
    asyncio.run(processes.run(job, b" " * (MODERATE + 1)))
    processes.jobs.stop()
    assert processes.large.bodies and not processes.moderate.bodies


def test_what_is_no_gzip_keeps_nobody_waiting() -> None:
    processes = Processes()
    with pytest.raises(StatusError, match="Failed to uncompress"):
        asyncio.run(processes.run(reading(True), b"x" * 1000))
    processes.jobs.stop()
    assert not processes.moderate.bodies and not processes.large.bodies
