"""Policies that choose among export versions: functions from a list of `Path` to a list of it.

>>> paths = [Path(f"/m/{version}", version) for version in (1, 2, 3)]
>>> _largest_export_versions(2)(paths)
[Path(path='/m/2', export_version=2), Path(path='/m/3', export_version=3)]
>>> _negation(_largest_export_versions(2))(paths)
[Path(path='/m/1', export_version=1)]
"""

from __future__ import annotations

import heapq
import math
import os
from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from estimand.core import tf_private


class Path(NamedTuple):
    """A directory and the version it stands for."""

    path: str
    export_version: int | None


Policy = Callable[[list[Path]], list[Path]]


def _largest_export_versions(n: int) -> Policy:
    """Choose the n newest."""

    def choose(paths: list[Path]) -> list[Path]:
        return sorted(heapq.nlargest(n, paths, key=lambda path: path.export_version or 0))

    return choose


def _one_of_every_n_export_versions(n: int) -> Policy:
    """Choose, of every interval of n versions, the newest."""

    def choose(paths: list[Path]) -> list[Path]:
        newest: dict[int, Path] = {}
        for path in sorted(paths, key=lambda path: path.export_version or 0):
            version = path.export_version or 0
            newest[math.floor((version - 1) / n) if version else 0] = path
        return sorted(newest.values())

    return choose


def _mod_export_version(n: int) -> Policy:
    """Choose the versions that n divides."""
    return lambda paths: sorted(path for path in paths if (path.export_version or 0) % n == 0)


def _union(first: Policy, second: Policy) -> Policy:
    """Choose what either chooses."""
    return lambda paths: sorted({*first(paths), *second(paths)})


def _negation(policy: Policy) -> Policy:
    """Choose what the other leaves."""
    return lambda paths: sorted({*paths} - {*policy(paths)})


def _get_paths(base_dir: str, parser: Callable[[Path], Path | None]) -> list[Path]:
    """The directories in `base_dir` that `parser` gives a version."""
    paths = []
    for name in tf_private.list_directory(base_dir):
        name = tf.compat.as_str_any(name).rstrip("/")
        parsed = parser(Path(os.path.join(tf.compat.as_str_any(base_dir), name), None))
        if parsed:
            paths.append(parsed)
    return sorted(paths)
