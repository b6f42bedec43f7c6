"""In the place of a lane whose program is still being made.

What was not made while its version was loaded (a choice of outputs, several signatures at once) can
take TensorFlow seconds. That happens on a thread: who asks for it waits, and nobody else does.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

from estimand.serving.batching.batches import Arrays, Task
from estimand.serving.batching.lane import Lane
from estimand.serving.batching.replies import Promise
from estimand.serving.status import deadline_exceeded, from_exception, overloaded


class PendingLane:
    """Is asked as the lane is, which it asks in turn as soon as it is there."""

    def __init__(self, making: asyncio.Future[Lane], most_waiting: int) -> None:
        self._most_waiting = most_waiting
        self._tasks: list[Task] = []
        self._making = making
        making.add_done_callback(self._is_made)

    def run(
        self, arrays: Arrays, deadline: float | None = None
    ) -> asyncio.Future[list[np.ndarray]]:
        promise: Promise[list[np.ndarray]] = Promise()
        self.submit(Task(arrays, deadline, promise))
        return promise.future

    def submit(self, task: Task, at_once: bool = False) -> None:
        """Raises what the making raised."""
        if self._making.done():
            self._making.result().submit(task, at_once)
            return
        if len(self._tasks) >= self._most_waiting:
            raise overloaded(f"{len(self._tasks)} requests wait for these outputs.", 1.0)
        if task.deadline is not None:
            loop = asyncio.get_running_loop()
            task.timer = loop.call_at(task.deadline, task.finish, deadline_exceeded())
        self._tasks.append(task)

    def _is_made(self, making: asyncio.Future[Any]) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            if task.over:
                continue
            if task.timer is not None:
                task.timer.cancel()
                task.timer = None
            try:
                making.result().submit(task)
            except Exception as error:
                task.finish(from_exception(error))
