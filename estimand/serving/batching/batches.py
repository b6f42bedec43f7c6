"""Tasks, and batches of them: what goes in together, and whose rows come out.

A task that is bad, or whose rows would mix with those of others, is run alone.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from estimand.serving.batching.padding import pad_rows, pad_to_longest
from estimand.serving.batching.programs import Program, same_rows
from estimand.serving.batching.replies import Reply
from estimand.serving.status import StatusError, from_exception, invalid

log = logging.getLogger("estimand.serving")

_SLOW_SECONDS = 0.01

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

        >>> from estimand.serving.protos.text_protos import batching_parameters
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
    """One request, or a part of one, in a lane.

    Its reply is told the outputs; subclasses make something else of them. Of `answered`, `failed`
    and `dropped` one is called, once, in the event loop; `dropped` when nobody waits any more.
    """

    __slots__ = ("arrays", "client", "deadline", "key", "over", "reply", "rows", "timer")

    def __init__(self, arrays: Arrays, deadline: float | None, reply: Reply[Any]) -> None:
        self.arrays = arrays
        self.deadline = deadline
        self.reply = reply
        self.client = reply.client
        self.over = False
        self.timer: Any = None
        # The lane's
        self.rows = 0
        self.key: Any = None  # of those it may be joined with; None: with no other

    @property
    def gone(self) -> bool:
        return self.reply.gone

    def answered(self, outputs: list[np.ndarray]) -> None:
        self.reply.succeed(outputs)

    def failed(self, error: StatusError) -> None:
        self.reply.fail(error)

    def dropped(self) -> None:
        pass

    def finish(self, result: list[np.ndarray] | StatusError) -> None:
        """The first result counts."""
        if self.over:
            return
        self.over = True
        if self.timer is not None:
            self.timer.cancel()
        try:
            if self.gone:
                self.dropped()
            elif isinstance(result, StatusError):
                self.failed(result)
            else:
                try:
                    self.answered(result)
                except Exception as error:  # who asked hears of it, and holds nothing any more
                    log.exception("an answer could not be made")
                    self.failed(from_exception(error))
        except Exception:  # the others of its batch have nothing to do with it
            log.exception("an answer could not be given")


class Batch:
    """Tasks that run together. `run` may be on any thread, `deliver` in the event loop."""

    def __init__(self, program: Program, settings: BatchSettings, tasks: list[Task]) -> None:
        self.program = program
        self.settings = settings
        self.tasks = tasks
        self.rows = sum([task.rows for task in tasks])
        self.results: Sequence[list[np.ndarray] | StatusError] = []
        self.began = 0.0

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
            task.finish(result)

    def _alone(self, task: Task) -> list[np.ndarray] | StatusError:
        try:
            return self.program.run(task.arrays, task.rows)
        except Exception as error:
            return from_exception(error)

    def _together(self) -> Sequence[list[np.ndarray] | StatusError]:
        columns = list(zip(*[task.arrays for task in self.tasks], strict=True))
        join: Callable[[Any], np.ndarray] = np.concatenate
        if self.settings.pad_variable_length:
            join = pad_to_longest
        joined = [join(column) for column in columns]
        size = next((n for n in self.settings.allowed_sizes if n >= self.rows), self.rows)
        if size > self.rows:
            filler = [array[:1] for array in self.tasks[-1].arrays]
            joined = [pad_rows(a, f, size) for a, f in zip(joined, filler, strict=True)]
        outputs = self.program.run(joined, size)
        if any([not array.ndim or len(array) != size for array in outputs]):
            return self._rows_are_lost(size)
        parts = self._parts(outputs)
        if self.settings.adaptive and self.program.next_batch_is_checked():
            return self._checked(parts)
        return parts

    def _parts(self, outputs: list[np.ndarray]) -> list[list[np.ndarray]]:
        parts = []
        start = 0
        for task in self.tasks:
            stop = start + task.rows
            parts.append([array[start:stop] for array in outputs])
            start = stop
        return parts

    def _checked(self, parts: list[list[np.ndarray]]) -> list[list[np.ndarray] | StatusError]:
        """The answers, and whether running together changes them."""
        began = time.monotonic()
        alone = {0: self._alone(self.tasks[0])}
        is_slow = time.monotonic() - began > _SLOW_SECONDS  # the others wait meanwhile
        for i in [len(parts) - 1] if is_slow else range(1, len(parts)):
            alone[i] = self._alone(self.tasks[i])
        for i, mine in alone.items():
            if isinstance(mine, StatusError) or not same_rows(parts[i], mine):
                self.program.mixes_rows = True
        if self.program.mixes_rows:
            alone |= {i: self._alone(t) for i, t in enumerate(self.tasks) if i not in alone}
        return [alone.get(i, part) for i, part in enumerate(parts)]

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


class _Part(Task):
    """Of a request that is larger than a batch may be."""

    __slots__ = ("_siblings", "_whole", "outputs")

    def __init__(self, arrays: Arrays, whole: Task, siblings: list[_Part]) -> None:
        super().__init__(arrays, whole.deadline, whole.reply)
        self._whole = whole
        self._siblings = siblings
        self.outputs: list[np.ndarray] | None = None

    @property
    def gone(self) -> bool:
        return self._whole.over or self._whole.gone

    def answered(self, outputs: list[np.ndarray]) -> None:
        self.outputs = outputs
        finished = [part.outputs for part in self._siblings if part.outputs is not None]
        if len(finished) == len(self._siblings):
            self._whole.finish([np.concatenate(column) for column in zip(*finished, strict=True)])

    def failed(self, error: StatusError) -> None:
        self._whole.finish(error)

    def dropped(self) -> None:
        self._whole.finish([])


def parts_of(whole: Task, rows: int, size: int) -> list[_Part]:
    """Tasks of at most so many rows, which together finish the whole one."""
    parts: list[_Part] = []
    for start in range(0, rows, size):
        arrays = [array[start : start + size] for array in whole.arrays]
        parts.append(_Part(arrays, whole, parts))
    return parts


def rows_of(arrays: Arrays) -> int | None:
    """Their common number of rows; None if they have none.

    >>> rows_of([np.zeros([3, 2]), np.zeros([3])])
    3
    """
    if not arrays or not arrays[0].ndim:
        return None
    rows = len(arrays[0])
    if len(arrays) == 1:
        return rows or None
    if rows and all(array.ndim and len(array) == rows for array in arrays[1:]):
        return rows
    return None


def checked_rows(arrays: Arrays) -> int:
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
