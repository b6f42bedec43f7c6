"""Modules that are imported when something of them is used: TensorFlow takes seconds.

>>> later = deferred("wave")
>>> later.open.__module__
'wave'
"""

from __future__ import annotations

import importlib
from typing import Any


class _Deferred:
    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self._name), name)
        setattr(self, name, value)
        return value


def deferred(name: str) -> Any:
    """In the place of the module, for code that may need none of it."""
    return _Deferred(name)
