"""Tasks that wait, of clients who take turns: one with a thousand is not before one with a single.

>>> from types import SimpleNamespace as Task
>>> turns = Turns()
>>> for client, number in (("a", 1), ("a", 2), ("a", 3), ("b", 4)):
...     turns.append(Task(client=client, number=number))
>>> [turns.popleft().number for _ in range(len(turns))]
[1, 4, 2, 3]
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any


class Turns:
    __slots__ = ("_by_client", "_count")

    def __init__(self) -> None:
        self._by_client: OrderedDict[Any, deque[Any]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def clients(self) -> int:
        return len(self._by_client)

    def of(self, client: Any) -> int:
        """How many tasks of a client wait."""
        return len(self._by_client.get(client, ()))

    def append(self, task: Any) -> None:
        self._count += 1
        queue = self._by_client.get(task.client)
        if queue is None:
            self._by_client[task.client] = deque((task,))
        else:
            queue.append(task)

    def popleft(self) -> Any:
        self._count -= 1
        client, tasks = self._by_client.popitem(last=False)
        task = tasks.popleft()
        if tasks:
            self._by_client[client] = tasks  # behind all others
        return task

    def give_back(self, tasks: list[Any]) -> None:
        """Each becomes the first of its client's, and their clients are next."""
        self._count += len(tasks)
        for task in reversed(tasks):
            self._by_client.setdefault(task.client, deque()).appendleft(task)
            self._by_client.move_to_end(task.client, last=False)
