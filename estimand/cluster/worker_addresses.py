"""Where the workers of a cluster with parameter servers are, which may come late, leave, and move.

`TF_CONFIG` names workers, and by "min_workers" how many have to be there to begin. One that has
been moved to another machine, or that nobody has named, is told its address by its own `TF_CONFIG`;
it leaves it in the model_dir, where the chief finds it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import weakref
from collections.abc import Collection, Mapping
from typing import Any

from estimand.cluster.addresses import takes_part
from estimand.core.files.atomic_files import replace_text

_FOLDER = "workers"


@dataclasses.dataclass
class WorkerAddresses:
    """What the chief knows: addresses by number.

    Attributes:
      listed: those of `TF_CONFIG`.
      model_dir: where workers leave other ones; None: they stay where they are, and none comes.
    """

    listed: Mapping[int, str]
    model_dir: str | None = None

    def now(self) -> dict[int, str]:
        told = {} if self.model_dir is None else announced(self.model_dir)
        return {**self.listed, **told}

    def numbers(self) -> Collection[int]:
        return self.now().keys()

    def there(self, numbers: Collection[int]) -> dict[int, str]:
        """Those among `numbers` that answer."""
        known = self.now() if numbers else {}
        asked = {number: known[number] for number in numbers if number in known}
        return {number: where for number, where in asked.items() if takes_part(where)}


def announce(model_dir: str, number: int, address: str) -> None:
    """Leave the address of a worker, which may have been cleared away."""
    path = _path(model_dir, number)
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        replace_text(path, address)


def announced(model_dir: str) -> dict[int, str]:
    """What workers have left.

    >>> import tempfile
    >>> model_dir = tempfile.mkdtemp()
    >>> announce(model_dir, 1, "10.0.0.9:2222")
    >>> announced(model_dir)
    {1: '10.0.0.9:2222'}
    >>> retract(model_dir)
    >>> announced(model_dir)
    {}
    """
    found = {}
    for name in _names(model_dir):
        with contextlib.suppress(OSError), open(_path(model_dir, name), encoding="utf-8") as file:
            found[int(name)] = file.read()
    return found


def retract(model_dir: str, number: int | None = None) -> None:
    """Clear away what a worker, or all of them, have left; those that are there leave it again."""
    for name in _names(model_dir):
        if number is None or int(name) == number:
            with contextlib.suppress(OSError):
                os.remove(_path(model_dir, name))
    with contextlib.suppress(OSError):
        os.rmdir(os.path.join(model_dir, _FOLDER))


def _names(model_dir: str) -> list[str]:
    try:
        return [name for name in os.listdir(os.path.join(model_dir, _FOLDER)) if name.isdecimal()]
    except OSError:
        return []


def _path(model_dir: str, number: int | str) -> str:
    return os.path.join(model_dir, _FOLDER, str(number))


_of_strategies: weakref.WeakKeyDictionary[Any, WorkerAddresses] = weakref.WeakKeyDictionary()


def addresses_of_workers(strategy: Any) -> WorkerAddresses:
    """Of the workers of a ParameterServerStrategy: there is one book for each."""
    from estimand.core import tf_private

    if strategy not in _of_strategies:
        cluster = tf_private.cluster_of_servers(strategy)
        numbers = cluster.task_indices("worker")
        listed = {number: cluster.task_address("worker", number) for number in numbers}
        _of_strategies[strategy] = WorkerAddresses(listed)
    return _of_strategies[strategy]
