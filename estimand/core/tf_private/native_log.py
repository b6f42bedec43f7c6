"""What TensorFlow's C++ code writes to the terminal by itself."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

ERROR, FATAL = 2, 3  # absl::LogSeverityAtLeast

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
    change(level)
    try:
        yield
    finally:
        change(before)


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
