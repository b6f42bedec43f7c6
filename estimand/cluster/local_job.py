"""A cluster of real processes, here or on Ray: started, watched, restarted, ended together."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TextIO

from estimand.cluster.description import ClusterDescription, Task
from estimand.cluster.output import Labels, Lines, wants_colour
from estimand.cluster.places import AnyChild, LocalMachine, Place
from estimand.core.errors import ClusterError
from estimand.core.tf_config import TaskType

_ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SECONDS_BETWEEN_LOOKS = 0.05
# A terminal and what stands between it and us may both pass on the same Ctrl-C.
_SECONDS_OF_ECHO = 1.0


@dataclass
class _Running:
    child: AnyChild
    lines: Lines
    log: TextIO | None


@dataclass
class LocalJob:
    """One run of a program in every role of a cluster.

    Attributes:
      cluster: which roles there are.
      command: the program, the same for all.
      out: where their lines go, each with its owner in front.
      restarts: how often a process that failed is started again.
      grace_secs: how long a process may take to end after SIGTERM, and servers after the chief.
      log_dir: where each process has its output in a file as well.
      place: where they run.
    """

    cluster: ClusterDescription
    command: Sequence[str]
    out: TextIO
    restarts: int = 0
    grace_secs: float = 30.0
    log_dir: str | None = None
    place: Place = field(default_factory=LocalMachine)
    _running: dict[Task, _Running] = field(default_factory=dict)
    _failures: dict[Task, int] = field(default_factory=dict)
    _ended: set[Task] = field(default_factory=set)
    _received: list[int] = field(default_factory=list)
    _trained_at: float | None = None

    def run(self) -> int:
        """Run all to their end; the exit code of the first that failed for good, or 0."""
        self._selector = selectors.DefaultSelector()
        with self.place, self._signals_noted(), self._selector:
            self._configs = self.place.tf_configs(self.cluster)
            self._labels = Labels(self._configs, coloured=wants_colour(self.out))
            try:
                for task in self._configs:
                    self._start(task)
                return self._watch()
            finally:
                self._end(self._running, patience=0)

    # Watching

    def _watch(self) -> int:
        while self._running:
            self._read()
            if self._received:
                return self._end_by_signal()
            if (exited := self._next_exited()) is not None:
                task, code = exited
                tail = self._sweep(task)
                if code == 0 or self._is_released(task):
                    self._ended.add(task)
                elif not (self._restart(task, code) or self._can_be_spared(task, code)):
                    return self._fail(task, code, tail)
            self._let_servers_go()
        return 0

    def _next_exited(self) -> tuple[Task, int] | None:
        """One that has ended, good ends first: they may explain the others."""
        codes = {task: process.child.exit_code() for task, process in self._running.items()}
        ended = [(task, code) for task, code in codes.items() if code is not None]
        return min(ended, key=lambda code: code[1] != 0, default=None)

    def _is_released(self, task: Task) -> bool:
        """A server after the end of training: how it ends does not matter any more."""
        return self._is_server(task) and Task(TaskType.CHIEF, 0) in self._ended

    def _let_servers_go(self) -> None:
        """Servers end by themselves when the chief has; those that do not are told to."""
        servers = [task for task in self._running if self._is_server(task)]
        if Task(TaskType.CHIEF, 0) not in self._ended or not servers:
            self._trained_at = None
            return
        if self._trained_at is None:
            self._trained_at = time.monotonic()
        if time.monotonic() - self._trained_at >= self.grace_secs:
            for task in servers:
                self._say(f"{task} still runs although the chief has ended; it is told to end.")
            self._end(servers, self.grace_secs)
            self._ended.update(servers)

    def _is_server(self, task: Task) -> bool:
        return self.cluster.has_servers and task.role in (TaskType.WORKER, TaskType.PS)

    # After a failure

    def _restart(self, task: Task, code: int) -> bool:
        """Start again what a failure has undone; False if it has failed too often."""
        lost = [other for other in self._configs if self.place.has_lost(other)]
        again = self._undone_by(task, moves=task in lost)
        # Those that go down together have one count: any of them may be the first to notice.
        failures = self._failures[again[0]] = self._failures.get(again[0], 0) + 1
        if failures > self.restarts:
            return False
        others = [task for task in again if task in self._running]
        self._say(
            f"{task} ended with exit code {code}. Starting "
            f"{', '.join(map(str, again))} again ({failures} of {self.restarts})."
        )
        self._end(others, self.grace_secs)
        if self._received:
            return True  # the loop sees to it
        if lost:
            self._say(f"The machine of {', '.join(map(str, lost))} is lost: another is looked for.")
            try:
                self._configs = self.place.tf_configs(self.cluster)
            except ClusterError as error:
                if not self._can_be_spared(task, code):
                    raise
                self._say(str(error))
                del self._configs[task]
                return True
        for restarted in again:
            self._ended.discard(restarted)
            self._start(restarted)
        return True

    def _can_be_spared(self, task: Task, code: int) -> bool:
        """A worker that failed for good, where enough others are left."""
        left = sum(other.role == TaskType.WORKER for other in self._running)
        least = self.cluster.min_workers
        if task.role != TaskType.WORKER or least is None or left < least:
            return False
        self._say(f"{task} ended with exit code {code}. Training goes on without it.")
        return True

    def _undone_by(self, task: Task, moves: bool) -> list[Task]:
        """A worker that serves, and an evaluator, are lost alone; else all that train together.

        They know each other by address: a worker that is to be at another one is no exception,
        unless workers may come and go.
        """
        may_move = self.cluster.min_workers is not None
        alone = task.role == TaskType.EVALUATOR or (
            task.role == TaskType.WORKER and self.cluster.has_servers and (may_move or not moves)
        )
        if alone:
            return [task]
        return [task for task in self._configs if task.role != TaskType.EVALUATOR]

    def _fail(self, task: Task, code: int, tail: Sequence[str]) -> int:
        self._end(list(self._running), self.grace_secs)
        self._say(f"{task} ended with exit code {code}. Its last lines:")
        for line in tail:
            self._print(f"    {line}")
        return code

    def _end_by_signal(self) -> int:
        number = self._received[0]
        self._say(f"{signal.Signals(number).name}: ending all processes.")
        self._end(list(self._running), self.grace_secs)
        return 128 + number

    # Starting and ending

    def _start(self, task: Task) -> None:
        environ = {"TF_CONFIG": self._configs[task], "PYTHONUNBUFFERED": "1"}
        log = self._open_log(task)
        child = self.place.start(task, self.command, environ)
        os.set_blocking(child.output.fileno(), False)
        self._running[task] = _Running(child, Lines(self._writer(task, log)), log)
        self._selector.register(child.output, selectors.EVENT_READ, task)

    def _end(self, tasks: Sequence[Task] | dict[Task, _Running], patience: float) -> None:
        """SIGTERM, time to save a checkpoint, SIGKILL; at once on a second Ctrl-C."""
        waiting = [task for task in tasks if task in self._running]
        for task in waiting:
            self._running[task].child.signal(signal.SIGTERM)
        deadline = time.monotonic() + patience
        signals = len(self._received)
        while time.monotonic() < deadline and len(self._received) == signals:
            if all(self._running[task].child.exit_code() is not None for task in waiting):
                break
            self._read()
        for task in waiting:
            self._sweep(task)

    def _sweep(self, task: Task) -> Sequence[str]:
        """Clear up after a process; its last lines."""
        process = self._running[task]
        self._drain(task)
        process.lines.finish()
        with contextlib.suppress(KeyError):
            self._selector.unregister(process.child.output)
        process.child.sweep()
        if process.log is not None:
            process.log.close()
        del self._running[task]
        return process.lines.tail

    # Output

    def _read(self) -> None:
        for key, _ in self._selector.select(_SECONDS_BETWEEN_LOOKS):
            self._drain(key.data)
        if not self._selector.get_map():
            time.sleep(_SECONDS_BETWEEN_LOOKS)

    def _drain(self, task: Task) -> None:
        process = self._running[task]
        while True:
            try:
                data = os.read(process.child.output.fileno(), 65536)
            except BlockingIOError:
                return
            if not data:  # closed, though the process may go on
                with contextlib.suppress(KeyError):
                    self._selector.unregister(process.child.output)
                return
            process.lines.feed(data)

    def _open_log(self, task: Task) -> TextIO | None:
        if self.log_dir is None:
            return None
        path = os.path.join(self.log_dir, f"{task.role}-{task.index}.log")
        return open(path, "a", encoding="utf-8", buffering=1)

    def _writer(self, task: Task, log: TextIO | None) -> Callable[[str], None]:
        def write(line: str) -> None:
            self._print(self._labels[task] + line)
            if log is not None:
                log.write(line + "\n")

        return write

    def _say(self, sentence: str) -> None:
        self._print(f"[launch] {sentence}")

    def _print(self, line: str) -> None:
        with contextlib.suppress(BrokenPipeError):
            print(line, file=self.out, flush=True)

    @contextlib.contextmanager
    def _signals_noted(self) -> Iterator[None]:
        """Inside, signals are noted and minded at the next look: nothing is left half done."""
        last = float("-inf")

        def note(number: int, frame: object) -> None:
            nonlocal last
            if time.monotonic() - last >= _SECONDS_OF_ECHO:
                self._received.append(number)
            last = time.monotonic()

        before = {number: signal.signal(number, note) for number in _ENDING_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
