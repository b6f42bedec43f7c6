"""Running together what is waiting.

Each program has a lane. A request puts its arrays into the lane and waits for its rows of the
answer. Lanes live in the event loop: only `Batch.run` happens elsewhere, on a thread, for programs
that take longer than a millisecond.

Adaptive lanes have no timer: what arrived while the last batch ran is the next batch. They join
requests only where that was seen to give the same rows as running each alone. Lanes with
TensorFlow Serving's parameters do what these say.
"""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import numpy as np

from estimand.serving.padding import pad_rows, pad_to_longest
from estimand.serving.programs import Program, same_rows
from estimand.serving.status import StatusError, deadline_exceeded, from_exception, invalid

INLINE_SECONDS = 0.001

Arrays = Sequence[np.ndarray]


@dataclass(frozen=True)
class BatchSettings:
    """How one lane joins requests."""

    adaptive: bool = True
    max_rows: int = 512
    delay_seconds: float = 0.0
    max_waiting_batches: int | None = None
    threads: int = 1
    allowed_sizes: tuple[int, ...] = ()
    pad_variable_length: bool = False
    split: bool = False

    @classmethod
    def of(cls, message: Any, cpus: int) -> BatchSettings:
        """From a BatchingParameters message.

        >>> from estimand.serving.text_protos import batching_parameters
        >>> BatchSettings.of(batching_parameters(), cpus=4).max_rows
        1000
        """

        def value(name: str, default: int) -> int:
            return getattr(message, name).value if message.HasField(name) else default

        max_rows = value("max_batch_size", 1000)
        split = message.enable_large_batch_splitting.value
        max_rows = value("max_execution_batch_size", max_rows) if split else max_rows
        allowed = tuple(message.allowed_batch_sizes)
        if max_rows <= 0:
            raise invalid(f"max_batch_size must be positive; was {max_rows}")
        if list(allowed) != sorted(set(allowed)):
            raise invalid("allowed_batch_sizes entries must be monotonically increasing")
        if allowed and allowed[-1] != max_rows:
            raise invalid(
                "final entry in allowed_batch_sizes must equal max_batch_size when "
                f"enable_large_batch_splitting is False: {allowed[-1]} != {max_rows}"
            )
        return cls(
            adaptive=False,
            max_rows=max_rows,
            delay_seconds=value("batch_timeout_micros", 0) / 1e6,
            max_waiting_batches=value("max_enqueued_batches", 10),
            threads=max(1, value("num_batch_threads", cpus)),
            allowed_sizes=allowed,
            pad_variable_length=message.pad_variable_length_inputs,
            split=split,
        )


class Task:
    """One request, or a part of one, in a lane."""

    __slots__ = ("arrays", "deadline", "future", "key", "rows")

    def __init__(
        self, arrays: Arrays, rows: int, key: Any, deadline: float | None, future: Any
    ) -> None:
        self.arrays = arrays
        self.rows = rows
        self.key = key
        self.deadline = deadline
        self.future = future


@dataclass
class Waiting:
    """How many requests wait, in all lanes together, and how many may."""

    limit: int
    count: int = 0


class Lane:
    """The requests for one program."""

    def __init__(
        self, program: Program, settings: BatchSettings, pool: Executor, waiting: Waiting
    ) -> None:
        self.program = program
        self.settings = settings
        self._pool = pool
        self._waiting = waiting
        self._tasks: deque[Task] = deque()
        self._rows = 0
        self._running = 0
        self._rows_running = 0
        self._flush_is_due = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, arrays: Arrays, deadline: float | None = None) -> Awaitable[list[np.ndarray]]:
        """The program's answer to these arrays. `deadline` is a time of the event loop."""
        loop = self._loop
        if loop is None:  # kept, for Python 3.11 asks the system for each answer
            loop = self._loop = asyncio.get_running_loop()
        program, settings = self.program, self.settings
        if settings.adaptive:
            rows = rows_of(arrays) if program.may_batch else None
            if rows is None:
                return self._enqueue(loop, arrays, 1, object(), deadline)
            return self._enqueue(loop, arrays, rows, shape_key(arrays, False), deadline)
        rows = _checked_rows(arrays)
        key = shape_key(arrays, settings.pad_variable_length)
        if rows <= settings.max_rows:
            return self._enqueue(loop, arrays, rows, key, deadline)
        if not settings.split:
            raise invalid(
                f"Task size {rows} is larger than maximum input batch size {settings.max_rows}"
            )
        parts = [
            self._enqueue(loop, part, rows_of(part) or 0, key, deadline)
            for part in _split(arrays, rows, settings.max_rows)
        ]
        return _joined(parts)

    def _enqueue(
        self,
        loop: asyncio.AbstractEventLoop,
        arrays: Arrays,
        rows: int,
        key: Any,
        deadline: float | None,
    ) -> asyncio.Future[list[np.ndarray]]:
        self._refuse_when_full(rows)
        future = loop.create_future()
        self._tasks.append(Task(arrays, rows, key, deadline, future))
        self._rows += rows
        self._waiting.count += 1
        if deadline is not None and (self._running or self._is_slow(rows)):
            timer = loop.call_at(deadline, _expire, future)
            future.add_done_callback(lambda _: timer.cancel())
        self._schedule(loop)
        return future

    def _refuse_when_full(self, rows: int) -> None:
        if self._waiting.count >= self._waiting.limit:
            raise StatusError.of(
                "RESOURCE_EXHAUSTED",
                f"The server has {self._waiting.count} requests waiting, and "
                f"max_queued_requests is {self._waiting.limit}.",
            )
        most = self.settings.max_waiting_batches
        if most is not None and self._rows + rows > most * self.settings.max_rows:
            batches = -(-self._rows // self.settings.max_rows)
            raise StatusError.of(
                "UNAVAILABLE",
                "The batch scheduling queue to which this task was submitted is full; currently "
                f"{batches} batches enqueued and max_enqueued_batches is {most}",
            )

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._flush_is_due and self._rows < self.settings.max_rows:
            return
        if not self._may_start():
            return  # the end of a running batch flushes
        self._flush_is_due = True
        if self.settings.delay_seconds and self._rows < self.settings.max_rows:
            loop.call_later(self.settings.delay_seconds, self._flush, loop)
        else:
            loop.call_soon(self._flush, loop)

    def _may_start(self) -> bool:
        """Whether what waits may run beside what runs.

        A few rows take almost as long as many. So a second batch is not begun with the first rows
        that come, but when it would not be the smaller one.
        """
        if self._running >= self.settings.threads:
            return False
        if not self._running or not self.settings.adaptive or not self.program.may_batch:
            return True
        return self._rows >= min(self._rows_running, self.settings.max_rows)

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        self._flush_is_due = False
        while self._tasks and self._may_start():
            tasks = self._take(loop.time())
            if not tasks:
                continue
            batch = Batch(self.program, self.settings, tasks)
            if self._is_slow(batch.rows):
                self._running += 1
                self._rows_running += batch.rows
                running = loop.run_in_executor(self._pool, batch.run)
                running.add_done_callback(functools.partial(self._done, loop, batch))
            else:
                batch.run()
                batch.deliver()

    def _take(self, now: float) -> list[Task]:
        """The next tasks that go together; those that nobody waits for any more are dropped."""
        taken: list[Task] = []
        passed: list[Task] = []
        rows = 0
        while self._tasks:
            task = self._tasks.popleft()
            if task.future.done():
                pass
            elif task.deadline is not None and task.deadline <= now:
                task.future.set_exception(deadline_exceeded())
            elif taken and task.key != taken[0].key:
                passed.append(task)
                continue
            elif taken and rows + task.rows > self.settings.max_rows:
                self._tasks.appendleft(task)
                break
            else:
                taken.append(task)
                rows += task.rows
            self._rows -= task.rows
            self._waiting.count -= 1
        self._tasks.extendleft(reversed(passed))
        return taken

    def _is_slow(self, rows: int) -> bool:
        return self.program.expected_seconds(rows) > INLINE_SECONDS

    def _done(self, loop: asyncio.AbstractEventLoop, batch: Batch, done: Any) -> None:
        self._running -= 1
        self._rows_running -= batch.rows
        if error := done.exception():
            batch.results = [from_exception(error)] * len(batch.tasks)
        batch.deliver()
        if self._tasks:
            self._flush(loop)


async def _joined(parts: list[asyncio.Future[list[np.ndarray]]]) -> list[np.ndarray]:
    answers = await asyncio.gather(*parts)
    return [np.concatenate(column) for column in zip(*answers, strict=True)]


def _expire(future: asyncio.Future[Any]) -> None:
    if not future.done():
        future.set_exception(deadline_exceeded())


class Batch:
    """Tasks that run together. `run` may be on any thread, `deliver` in the event loop."""

    def __init__(self, program: Program, settings: BatchSettings, tasks: list[Task]) -> None:
        self.program = program
        self.settings = settings
        self.tasks = tasks
        self.rows = sum(task.rows for task in tasks)
        self.results: list[list[np.ndarray] | StatusError] = []

    def run(self) -> None:
        if len(self.tasks) == 1 and self.settings.adaptive:
            self.results = [self._alone(self.tasks[0])]
            return
        try:
            self.results = self._together()
        except Exception as error:
            if len(self.tasks) == 1 or isinstance(error, StatusError):
                self.results = [from_exception(error)] * len(self.tasks)
            else:  # one of them is bad, or together they are too much: each for itself
                self.results = [self._alone(task) for task in self.tasks]

    def deliver(self) -> None:
        for task, result in zip(self.tasks, self.results, strict=True):
            if task.future.done():
                continue
            if isinstance(result, StatusError):
                task.future.set_exception(result)
            else:
                task.future.set_result(result)

    def _alone(self, task: Task) -> list[np.ndarray] | StatusError:
        try:
            return self.program.run(task.arrays, task.rows)
        except Exception as error:
            return from_exception(error)

    def _together(self) -> list[list[np.ndarray] | StatusError]:
        columns = list(zip(*(task.arrays for task in self.tasks), strict=True))
        join: Callable[[Any], np.ndarray] = np.concatenate
        if self.settings.pad_variable_length:
            join = pad_to_longest
        joined = [join(column) for column in columns]
        size = next((n for n in self.settings.allowed_sizes if n >= self.rows), self.rows)
        if size > self.rows:
            filler = [array[:1] for array in self.tasks[-1].arrays]
            joined = [pad_rows(a, f, size) for a, f in zip(joined, filler, strict=True)]
        outputs = self.program.run(joined, size)
        if any(not array.ndim or len(array) != size for array in outputs):
            return self._rows_are_lost(size)
        parts = self._parts(outputs)
        if self.settings.adaptive and self.program.next_batch_is_checked():
            return self._checked(parts)
        return list(parts)

    def _parts(self, outputs: list[np.ndarray]) -> list[list[np.ndarray]]:
        parts = []
        start = 0
        for task in self.tasks:
            stop = start + task.rows
            parts.append([array[start:stop] for array in outputs])
            start = stop
        return parts

    def _checked(self, parts: list[list[np.ndarray]]) -> list[list[np.ndarray] | StatusError]:
        alone = [self._alone(task) for task in self.tasks]
        for mine, joint in zip(alone, parts, strict=True):
            if isinstance(mine, StatusError) or not same_rows(joint, mine):
                self.program.mixes_rows = True
        return alone

    def _rows_are_lost(self, size: int) -> list[list[np.ndarray] | StatusError]:
        if self.settings.adaptive:
            self.program.mixes_rows = True
            return [self._alone(task) for task in self.tasks]
        error = StatusError.of(
            "FAILED_PRECONDITION",
            "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension "
            f"sizes of the input tensors ({size})",
        )
        return [error] * len(self.tasks)


def rows_of(arrays: Arrays) -> int | None:
    """Their common number of rows; None if they have none.

    >>> rows_of([np.zeros([3, 2]), np.zeros([3])])
    3
    """
    if not arrays or not arrays[0].ndim:
        return None
    rows = len(arrays[0])
    if rows and all(array.ndim and len(array) == rows for array in arrays[1:]):
        return rows
    return None


def _checked_rows(arrays: Arrays) -> int:
    if any(not array.ndim for array in arrays):
        raise invalid("Batching session Run() input tensors must have at least one dimension")
    if len({len(array) for array in arrays}) != 1:
        raise invalid("Batching session Run() input tensors must have equal 0th-dimension size")
    return len(arrays[0])


def shape_key(arrays: Arrays, ranks_only: bool) -> Any:
    """What requests must have in common to run together."""
    if ranks_only:
        return tuple((array.dtype, array.ndim) for array in arrays)
    if len(arrays) == 1:
        return arrays[0].dtype, arrays[0].shape[1:]
    return tuple((array.dtype, array.shape[1:]) for array in arrays)


def _split(arrays: Arrays, rows: int, size: int) -> list[list[np.ndarray]]:
    return [[a[start : start + size] for a in arrays] for start in range(0, rows, size)]
