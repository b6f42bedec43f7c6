"""Why and where training was stopped, kept in `model_dir` for processes that only see the disk.

An evaluator in another process ends when it has evaluated the checkpoint at that step, and a
program that is started again knows that it was done.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import time
from dataclasses import asdict, dataclass

from estimand.core.files.atomic_files import replace_text

STOP_FILE = "stopped.json"

_log = logging.getLogger("tensorflow")


@dataclass(frozen=True)
class StopRecord:
    """Training ended for good at `step`.

    >>> import tempfile
    >>> directory = tempfile.mkdtemp()
    >>> write(directory, step=300, reason="loss did not decrease")
    >>> read(directory).step
    300
    >>> remove(directory)
    >>> read(directory) is None
    True
    """

    step: int
    reason: str
    time: float


def write(model_dir: str | os.PathLike[str], *, step: int, reason: str) -> None:
    """Leave the record, as a whole or not at all."""
    record = StopRecord(int(step), reason, time.time())
    replace_text(_path(model_dir), json.dumps(asdict(record), indent=1) + "\n")


def read(model_dir: str | os.PathLike[str]) -> StopRecord | None:
    """The record; None if there is none, or one that cannot be read."""
    path = _path(model_dir)
    try:
        with open(path, encoding="utf-8") as file:
            entries = json.load(file)
        return StopRecord(int(entries["step"]), str(entries["reason"]), float(entries["time"]))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        _log.warning("Ignoring %s, which cannot be read: %s.", path, error)
        return None


def remove(model_dir: str | os.PathLike[str]) -> None:
    """Training goes on after all."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        os.remove(_path(model_dir))


def _path(model_dir: str | os.PathLike[str]) -> str:
    return os.path.join(os.fspath(model_dir), STOP_FILE)
