"""What TensorFlow writes to the terminal by itself."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import glob
import os
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.util import deprecation

ERROR, FATAL = 2, 3  # absl::LogSeverityAtLeast

# A context in which TensorFlow does not say that what we call will be gone one day.
without_deprecations = deprecation.silence

# Abseil has no binding for Python. Its names carry the release that TensorFlow was built with.
_RELEASES = ("lts_20250814", "lts_20250512", "lts_20250127", "lts_20240722", "lts_20230802")
_LIBRARIES = ("libtensorflow_framework.so.2", "libtensorflow_cc.so.2")


@contextlib.contextmanager
def native_log_from(level: int) -> Iterator[None]:
    """Inside, C++ code logs what is at least so grave; all of it where Abseil is not found.

    Nothing is redirected: what a crash says last still reaches the terminal.
    """
    functions = _functions()
    if functions is None:
        yield
        return
    now, change = functions
    before = now()
    change(max(level, before))  # who wants to see less has said so before
    try:
        yield
    finally:
        change(before)


@functools.cache
def look_for_devices_quietly() -> None:
    """Where there is no GPU, what looks for one says that it failed: this is no error here.

    To be called before anything else of TensorFlow looks, in each process by itself.
    """
    with native_log_from(FATAL) if not has_gpu_device() else contextlib.nullcontext():
        tf.config.list_physical_devices()


def has_gpu_device() -> bool:
    """Whether there is a device of NVIDIA's driver, whether or not it works."""
    return any(map(glob.glob, ("/dev/nvidia[0-9]*", "/proc/driver/nvidia/gpus/*", "/dev/dxg")))


@functools.cache
def _functions() -> tuple[Any, Any] | None:
    """MinLogLevel and SetMinLogLevel of the Abseil inside of TensorFlow."""
    folder = os.path.dirname(tf.__file__)
    for library in _LIBRARIES:
        try:
            loaded = ctypes.CDLL(os.path.join(folder, library))  # it is loaded already
        except OSError:
            continue
        for release in _RELEASES:
            place = f"_ZN4absl{len(release)}{release}"
            now = getattr(loaded, f"{place}11MinLogLevelEv", None)
            change = getattr(loaded, f"{place}14SetMinLogLevelENS0_18LogSeverityAtLeastE", None)
            if now is not None and change is not None:
                now.restype, change.restype = ctypes.c_int, None
                return now, change
    return None
