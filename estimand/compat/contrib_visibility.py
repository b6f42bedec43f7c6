"""`tf.contrib` for the files that use it, and for no other.

Libraries that run with every TensorFlow look for `tf.contrib`, and take it for TensorFlow 1 where
they find it. So the name is not set: whoever asks for it is looked at.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from estimand.compat import detection


@functools.cache
def file_asks(path: str) -> bool:
    """Whether a file of Python uses `tf.contrib`."""
    return detection.asks_for_contrib(_source(path))


def tensorflow_1_for(path: str, for_either: bool = False) -> Any:
    """The TensorFlow 1 that a file gets; its version goes with what it shows of contrib.

    Args:
        path: the file.
        for_either: it has a way for TensorFlow 2, and is told that version.
    """
    from estimand.compat.v1 import view

    if file_asks(path):
        return view.tf
    if for_either or _looks(path):
        return view.tf_for_either
    return view.tf_without_contrib


@functools.cache
def _looks(path: str) -> bool:
    return detection.looks_for_contrib(_source(path))


def _source(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""


def finder(name: str, before: Callable[[str], Any] | None) -> Callable[[str], Any]:
    """A `__getattr__` for the module of that name, which had `before` or none."""

    def __getattr__(attribute: str) -> Any:
        if attribute == "contrib" and _asked_by_a_user_of_it():
            return sys.modules["tensorflow.contrib"]
        if before is not None:
            return before(attribute)
        raise AttributeError(f"module {name!r} has no attribute {attribute!r}")

    return __getattr__


def _asked_by_a_user_of_it() -> bool:
    frame: Any = sys._getframe(2)
    while frame is not None and _is_in_between(frame.f_globals.get("__name__")):
        frame = frame.f_back
    return frame is not None and file_asks(frame.f_code.co_filename)


def _is_in_between(module: Any) -> bool:
    """TensorFlow's wrappers around its modules, and this module."""
    return module == __name__ or str(module).startswith("tensorflow.")
