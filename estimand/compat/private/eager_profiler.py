"""`tensorflow.python.eager.profiler`: profiles as bytes, on today's `tf.profiler.experimental`."""

from __future__ import annotations

import glob
import os
import shutil
import socket
import tempfile
import time
from typing import Any

import tensorflow as tf

_profiler = tf.profiler.experimental
_folders: list[str] = []


class ProfilerAlreadyRunningError(Exception):
    """A second profile was begun."""


class ProfilerNotRunningError(Exception):
    """None was begun."""


def start(options: Any = None) -> None:
    """Begin a profile; `stop` gives it."""
    if _folders:
        raise ProfilerAlreadyRunningError("Another profiler is running.")
    folder = tempfile.mkdtemp()
    try:
        _profiler.start(folder, options)
    except tf.errors.AlreadyExistsError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise ProfilerAlreadyRunningError("Another profiler is running.") from error
    _folders.append(folder)


def stop() -> bytes:
    """End the profile; its bytes (an XSpace message) are what `save` takes."""
    if not _folders:
        raise ProfilerNotRunningError("Cannot stop profiling. No profiler is running.")
    folder = _folders.pop()
    try:
        _profiler.stop()
        traces = sorted(glob.glob(os.path.join(folder, "plugins/profile/*/*.xplane.pb")))
        if not traces:
            return b""
        with open(traces[-1], "rb") as file:
            return file.read()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def save(logdir: str, result: bytes) -> None:
    """Write a profile where TensorBoard looks for it."""
    run = time.strftime("%Y_%m_%d_%H_%M_%S")
    folder = os.path.join(logdir, "plugins", "profile", run)
    tf.io.gfile.makedirs(folder)
    with tf.io.gfile.GFile(os.path.join(folder, f"{socket.gethostname()}.xplane.pb"), "wb") as file:
        file.write(result)


def start_profiler_server(port: int) -> None:
    """Let TensorBoard capture profiles of this process."""
    _profiler.server.start(port)


class Profiler:
    """Profiles what is inside of its `with`."""

    def __init__(self, logdir: str, options: Any = None) -> None:
        self._logdir, self._options = logdir, options

    def __enter__(self) -> None:
        start(self._options)

    def __exit__(self, *error: object) -> None:
        save(self._logdir, stop())
