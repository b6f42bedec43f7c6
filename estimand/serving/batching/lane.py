"""Running together what is waiting.

Each program has a lane. A request puts its task into the lane, and the task is told its rows of
the answer. Lanes live in the event loop: only `Batch.run` happens elsewhere, on a thread, for
programs that take longer than a millisecond.

Adaptive lanes have no timer: what arrived while the last batch ran is the next batch. They join
requests only where that is proven to give the same rows as running each alone (`rows.proof`), or
where somebody has said so; what is seen while running can only forbid it. Lanes with TensorFlow
Serving's parameters do what these say.
"""

from __future__ import annotations

import asyncio
import functools
import time
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakSet

import numpy as np

from estimand.serving.batching.batches import (
    Arrays,
    Batch,
    BatchSettings,
    Task,
    checked_rows,
    parts_of,
    rows_of,
    shape_key,
)
from estimand.serving.batching.pace import Pace
from estimand.serving.batching.programs import Program
from estimand.serving.batching.replies import Promise
from estimand.serving.batching.turns import Turns
from estimand.serving.status import (
    StatusError,
    deadline_exceeded,
    from_exception,
    invalid,
    overloaded,
)

# What may run in the event loop itself: the way to a thread and back costs a tenth of it.
INLINE_SECONDS = 0.001
# The same for a request that is alone in its lane.
INLINE_SECONDS_ALONE = 0.0025
# After so much of that the event loop has a turn, if more waits.
_TURN_SECONDS = 0.0025
# What does not wait for others if they come one by one.
AT_ONCE_SECONDS = 0.0002
# Programs that take longer are worth a look at who else is coming.
_LOOK_SECONDS = 0.0003
# How long to wait for nobody.
_MOST_PATIENCE = 0.001


# However slow a model is: a client may wait for as long as so many take, if it is the only one.
_TASKS_AT_LEAST = 8


@dataclass(eq=False)
class Waiting:
    """How many requests wait, in all lanes together, and how many may, for how long.

    One client, or one model, may have `limit`; several share twice as much, so that there is always
    room for one who has none: each may have as many as are still free.
    """

    limit: int
    seconds: float = float("inf")
    count: int = 0
    lanes: WeakSet[Lane] = field(default_factory=WeakSet)

    def is_full_for(self, lane: Lane, client: Any) -> bool:
        if self.count < self.limit:
            return False
        free = 2 * self.limit - self.count
        theirs = sum(any_lane.waiting_of(client) for any_lane in self.lanes)
        return theirs >= free or lane.waiting >= free


class Lane:
    """The requests for one program."""

    def __init__(
        self, program: Program, settings: BatchSettings, pool: Executor, waiting: Waiting
    ) -> None:
        self.program = program
        self.settings = settings
        self._pool = pool
        self._waiting = waiting
        self._tasks = Turns()
        waiting.lanes.add(self)
        self._pace = Pace()
        self._rows = 0
        self._running = 0
        self._rows_running = 0
        self._flush_is_due = False
        self._goes_on = False  # what waits is run in the event loop, but others have a turn first
        self._rows_seen = 0  # by the last look at who else is coming
        self._rows_before = 0  # of the batch that ran last
        self._first_look = 0.0
        self._last_key: Any = None  # of the last request, and whether such may be joined
        self._last_may_join = False
        self._loop: Any = None

    def run(
        self, arrays: Arrays, deadline: float | None = None
    ) -> asyncio.Future[list[np.ndarray]]:
        """The program's answer to these arrays, to be awaited; `deadline` is a time of the event
        loop."""
        promise: Promise[list[np.ndarray]] = Promise()
        self.submit(Task(arrays, deadline, promise))
        return promise.future

    def submit(self, task: Task, at_once: bool = False) -> None:
        """Raises StatusError for one that is refused; the task is not told then.

        `at_once` is for requests that come one by one: a quick program does not wait for others.
        """
        program, settings = self.program, self.settings
        arrays = task.arrays
        if settings.adaptive:
            rows = rows_of(arrays) if program.may_batch else None
            task.rows = rows or 1
            if at_once and self._is_free_for(task):
                self._run_inline(Batch(program, settings, [task]))
                return
            key = None if rows is None else shape_key(arrays, False)
            if key != self._last_key:
                joins = program.joins
                self._last_may_join = key is not None and joins is not None and joins.allow(arrays)
                self._last_key = key
            task.key = self._last_key if self._last_may_join else None
            self._enqueue(task)
            return
        rows = checked_rows(arrays)
        if rows <= settings.max_rows:
            parts = [task]
        elif settings.split:
            parts = list[Task](parts_of(task, rows, settings.max_rows))
        else:
            raise invalid(
                f"Task size {rows} is larger than maximum input batch size {settings.max_rows}"
            )
        for part in parts:
            part.rows = len(part.arrays[0])
            part.key = shape_key(part.arrays, settings.pad_variable_length)
            self._enqueue(part)

    def _is_free_for(self, task: Task) -> bool:
        if self._tasks or self._running:
            return False
        program = self.program
        if program.expected_seconds(task.rows) >= AT_ONCE_SECONDS:
            return False
        return program.knows_size(task.arrays, task.rows)

    def _its_loop(self) -> asyncio.AbstractEventLoop:
        if self._loop is None:  # kept, for Python 3.11 asks the system for each answer
            self._loop = asyncio.get_running_loop()
        loop: asyncio.AbstractEventLoop = self._loop
        return loop

    def _enqueue(self, task: Task) -> None:
        rows = task.rows
        waiting = self._waiting
        if waiting.count >= waiting.limit or self.settings.max_waiting_batches:
            self._refuse_when_full(task)
        if self._pace.each and self._tasks:
            self._refuse_when_late(task)
        self._tasks.append(task)
        self._rows += rows
        self._waiting.count += 1
        loop = self._its_loop()
        if task.deadline is not None and (
            self._running or self.program.expected_seconds(rows) > INLINE_SECONDS
        ):
            task.timer = loop.call_at(task.deadline, _expire, task)
        if not self._flush_is_due or self._rows >= self.settings.max_rows:
            self._schedule(loop)

    def _refuse_when_late(self, task: Task) -> None:
        """When it would wait for too long, or longer than its client does."""
        wait = self._pace.wait(self._tasks, task.client)
        most = max(self._waiting.seconds, _TASKS_AT_LEAST * self._pace.each)
        if task.deadline is not None:
            most = min(most, task.deadline - self._its_loop().time())
        if wait > most:
            raise overloaded(
                f"{len(self._tasks)} requests wait for this model; another would wait for about "
                f"{wait:.1f} s.",
                wait,
            )

    @property
    def waiting(self) -> int:
        return len(self._tasks)

    def waiting_of(self, client: Any) -> int:
        return self._tasks.of(client)

    def _refuse_when_full(self, task: Task) -> None:
        if self._waiting.is_full_for(self, task.client):
            raise overloaded(
                f"The server has {self._waiting.count} requests waiting, and "
                f"max_queued_requests is {self._waiting.limit}.",
                self._pace.each * len(self._tasks),
            )
        most = self.settings.max_waiting_batches
        if most is not None and self._rows + task.rows > most * self.settings.max_rows:
            batches = -(-self._rows // self.settings.max_rows)
            raise StatusError.of(
                "UNAVAILABLE",
                "The batch scheduling queue to which this task was submitted is full; currently "
                f"{batches} batches enqueued and max_enqueued_batches is {most}",
            )

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._goes_on or not self._may_start():
            return  # the end of a running batch flushes
        self._flush_is_due = True
        if self.settings.delay_seconds and self._rows < self.settings.max_rows:
            loop.call_later(self.settings.delay_seconds, self._flush, loop)
        elif self._rows + self._rows_before > 2 and self._may_grow(self._rows):
            self._rows_seen = 0
            self._first_look = time.perf_counter()
            loop.call_soon(self._look, loop)
        else:
            loop.call_soon(self._flush, loop)

    def _may_grow(self, rows: int) -> bool:
        """Whether a batch would gain more by a few more requests than it loses by a look."""
        if not self.settings.adaptive or rows >= self.settings.max_rows:
            return False
        return self.program.may_batch and self.program.expected_seconds(rows) > _LOOK_SECONDS

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """Clients that get their answers together ask again together, but not at once.

        So as long as each turn of the event loop brings requests, it is worth another one; but
        never longer than the batch itself will take.
        """
        rows = self._rows
        if self._may_grow(rows):
            patience = self.program.expected_seconds(rows)
            if rows <= self._rows_seen:  # those that were answered last may not have heard it yet
                waits = rows < self._rows_before
                patience = min(patience / 4, _MOST_PATIENCE) if waits else 0.0
            self._rows_seen = rows
            if time.perf_counter() - self._first_look < patience:
                loop.call_soon(self._look, loop)
                return
        self._flush(loop)

    def _may_start(self) -> bool:
        """Whether what waits may run beside what runs.

        A few rows take almost as long as many. So a second batch is not begun with the first rows
        that come, but when it would be the larger one.
        """
        if not self._running:
            return True
        if self._running >= self.settings.threads:
            return False
        if not self.settings.adaptive or not self.program.may_batch:
            return True
        return self._rows > min(self._rows_running, self.settings.max_rows - 1)

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        self._flush_is_due = self._goes_on = False
        ends = 0.0
        while self._tasks and self._may_start():
            tasks = self._take(loop)
            if not tasks:
                continue
            batch = Batch(self.program, self.settings, tasks)
            if self._runs_inline(batch):
                batch.began = loop.time()
                ends = ends or batch.began + _TURN_SECONDS
                self._run_inline(batch)
                if self._tasks and self._notes_end(loop, batch) >= ends:
                    self._flush_is_due = self._goes_on = True
                    loop.call_soon(self._flush, loop)
                    return
            else:
                self._rows_before = batch.rows
                self._running += 1
                self._rows_running += batch.rows
                batch.began = loop.time()
                running = loop.run_in_executor(self._pool, batch.run)
                running.add_done_callback(functools.partial(self._done, loop, batch))

    def _run_inline(self, batch: Batch) -> None:
        self._rows_before = batch.rows
        batch.run()
        batch.deliver()

    def _notes_end(self, loop: asyncio.AbstractEventLoop, batch: Batch) -> float:
        now = loop.time()
        if self.settings.adaptive:
            self._pace.note(now, batch.began, batch.tasks, self._tasks)
        return now

    def _take(self, loop: asyncio.AbstractEventLoop) -> list[Task]:
        """The next tasks that go together; those that nobody waits for any more are dropped."""
        taken: list[Task] = []
        passed: list[Task] = []
        rows, most, now = 0, self.settings.max_rows, None
        waiting = self._tasks
        for _ in range(len(waiting)):
            if taken and taken[0].key is None:
                break
            task = waiting.popleft()
            if task.over:
                pass
            elif task.gone:
                task.finish([])
            elif taken and task.key != taken[0].key:
                passed.append(task)
                continue
            elif taken and rows + task.rows > most:
                passed.append(task)
                break
            else:
                if task.deadline is not None:
                    now = now or loop.time()
                if now is not None and task.deadline is not None and task.deadline <= now:
                    task.finish(deadline_exceeded())
                else:
                    taken.append(task)
                    rows += task.rows
            self._rows -= task.rows
            self._waiting.count -= 1
        if passed:
            waiting.give_back(passed)
        return taken

    def _runs_inline(self, batch: Batch) -> bool:
        seconds = self.program.expected_seconds(batch.rows)
        alone = len(batch.tasks) == 1 and not self._tasks and not self._running
        if seconds > (INLINE_SECONDS_ALONE if alone else INLINE_SECONDS):
            return False
        arrays = [array for task in batch.tasks for array in task.arrays]
        return self.program.knows_size(arrays, batch.rows)

    def _done(self, loop: asyncio.AbstractEventLoop, batch: Batch, done: Any) -> None:
        self._running -= 1
        self._rows_running -= batch.rows
        self._notes_end(loop, batch)
        if error := done.exception():
            batch.results = [from_exception(error)] * len(batch.tasks)
        batch.deliver()
        if not self._tasks:
            return
        if not self.settings.adaptive:
            self._flush(loop)  # they have waited
        elif not self._flush_is_due:
            self._schedule(loop)


def _expire(task: Task) -> None:
    task.finish(deadline_exceeded())
