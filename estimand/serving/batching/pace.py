"""How long a task will wait: told by how far apart those before it ended.

Clients take turns, so one that has much waiting is passed by those who come later: what it waits
for is not the end of the queue, but as many of its own turns as it has tasks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from estimand.serving.batching.batches import Task
from estimand.serving.batching.turns import Turns

# What is measured before it is believed; the first calls are longer than all others.
_BATCHES_BEFORE = 3
_WEIGHT = 0.2  # of the newest


@dataclass
class _Own:
    """Of a client that has tasks waiting."""

    last_end: float
    each: float = 0.0  # seconds; 0: not known yet


class Pace:
    """Of one lane. `each` is the time between two tasks that end while others wait; 0 at first."""

    def __init__(self) -> None:
        self.each = 0.0
        self._batches = 0
        self._last_end = 0.0
        self._own: dict[Any, _Own] = {}

    def note(self, now: float, began: float, tasks: Sequence[Task], waiting: Turns) -> None:
        """Tasks that ran together have ended. Of batches side by side the last one counts from the
        end of the other."""
        self._batches += 1
        each = (now - max(began, self._last_end)) / len(tasks)
        self._last_end = now
        if self._batches > _BATCHES_BEFORE:
            self.each = _mean(self.each, each)
        if not waiting:
            self._own.clear()
            return
        counts: dict[Any, int] = {}
        for task in tasks:
            counts[task.client] = counts.get(task.client, 0) + 1
        for client, count in counts.items():
            own = self._own.get(client)
            if not waiting.of(client):
                self._own.pop(client, None)
            elif own is None:
                self._own[client] = _Own(now)
            else:
                own.each = _mean(own.each, (now - own.last_end) / count)
                own.last_end = now
        if len(self._own) > 2 * waiting.clients:  # clients have left, with what they had waiting
            self._own = {key: own for key, own in self._own.items() if waiting.of(key)}

    def wait(self, waiting: Turns, client: Any) -> float:
        """Of one more task of this client."""
        before = waiting.of(client) + 1
        own = self._own.get(client)
        if own is not None and own.each:
            return before * own.each
        return self.each * min(len(waiting), before * waiting.clients)


def _mean(before: float, newest: float) -> float:
    return before + _WEIGHT * (newest - before) if before else newest
