"""The output of several processes in one: whole lines, each with its owner in front."""

from __future__ import annotations

import collections
import os
from collections.abc import Callable, Iterable
from typing import TextIO

from estimand.cluster.description import Task

TAIL = 20  # lines

_RESET = "\x1b[0m"
_COLOURS = {"chief": 32, "ps": 35, "evaluator": 33}
_WORKER_COLOURS = (36, 34, 96, 94)


class Labels:
    """What stands before the lines of each process, as wide as the widest.

    >>> labels = Labels([Task("chief", 0), Task("worker", 0)], coloured=False)
    >>> labels[Task("chief", 0)], labels[Task("worker", 0)]
    ('[chief]    ', '[worker 0] ')
    """

    def __init__(self, tasks: Iterable[Task], *, coloured: bool) -> None:
        plain = {task: f"[{task}]" for task in tasks}
        width = max(map(len, plain.values()), default=0)
        self._labels = {
            task: _paint(task, text, coloured) + " " * (width - len(text) + 1)
            for task, text in plain.items()
        }

    def __getitem__(self, task: Task) -> str:
        return self._labels[task]


def wants_colour(stream: TextIO) -> bool:
    """On a terminal, unless the user does not like colours (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR")


def _paint(task: Task, text: str, coloured: bool) -> str:
    if not coloured:
        return text
    colour = _COLOURS.get(task.role, _WORKER_COLOURS[task.index % len(_WORKER_COLOURS)])
    return f"\x1b[{colour}m{text}{_RESET}"


class Lines:
    """Bytes as they come out of a process, given on line by line; remembers the last of them."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._rest = b""
        self.tail: collections.deque[str] = collections.deque(maxlen=TAIL)

    def feed(self, data: bytes) -> None:
        *whole, self._rest = (self._rest + data.replace(b"\r\n", b"\n")).split(b"\n")
        for line in whole:
            self._give(line)

    def finish(self) -> None:
        """What came without an end of line."""
        if self._rest:
            self._give(self._rest)
        self._rest = b""

    def _give(self, line: bytes) -> None:
        # Of a line that was overwritten again and again, what would be seen at the end.
        text = line.decode("utf-8", errors="replace").rstrip("\r").rpartition("\r")[2]
        self.tail.append(text)
        self._write(text)
