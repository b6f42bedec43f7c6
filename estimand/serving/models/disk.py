"""The versions of a model on disk."""

from __future__ import annotations

import contextlib
import os
import re

_NUMBER = re.compile(r"\d{1,18}")


def versions(base_path: str) -> dict[int, str]:
    """The directories below the base path that are named by numbers; OSError if there is none.

    >>> import pathlib, tempfile
    >>> base = tempfile.mkdtemp()
    >>> for name in ("1", "00000123", "temp-2", "notes"):
    ...     pathlib.Path(base, name).mkdir()
    >>> sorted(versions(base))
    [1, 123]
    """
    directories = {}
    for name in sorted(_children(base_path)):
        if _NUMBER.fullmatch(name):
            directories[int(name)] = os.path.join(base_path, name)
    return directories


def contents(path: str) -> tuple[tuple[str, int, int], ...]:
    """What there is below a local directory: names, sizes and times; nothing of other places."""
    files = []
    for folder, _, names in os.walk(path):
        for name in names:
            file = os.path.join(folder, name)
            with contextlib.suppress(OSError):  # gone meanwhile
                facts = os.stat(file)
                files.append((file, facts.st_size, facts.st_mtime_ns))
    return tuple(sorted(files))


def _children(path: str) -> list[str]:
    if "://" not in path:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries if entry.is_dir()]
    import tensorflow as tf

    try:
        return [name.rstrip("/") for name in tf.io.gfile.listdir(path)]
    except tf.errors.OpError as error:
        raise OSError(str(error)) from error
