"""Whether a file is still the one that was read."""

from __future__ import annotations

import os

Stamp = tuple[int, int, int]


def stamp(status: os.stat_result) -> Stamp:
    return status.st_mtime_ns, status.st_size, status.st_ino


def stamp_of(path: str) -> Stamp | None:
    """None if there is no such file. Links are followed: some exchange files by links."""
    try:
        return stamp(os.stat(path))
    except OSError:
        return None
