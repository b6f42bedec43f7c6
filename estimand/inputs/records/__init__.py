"""TFRecord files: write, read, inspect and verify them.

>>> import os, tempfile
>>> import estimand as est
>>> path = os.path.join(tempfile.mkdtemp(), "a.tfrecord")
>>> est.records.write(path, {"x": [1, 2, 3]}).records
3
>>> [row["x"] for row in est.records.read(path)]
[1, 2, 3]
"""

from __future__ import annotations

import importlib
from typing import Any

_HOME = {
    "FileReport": "verifying",
    "Inspection": "inspecting",
    "Problem": "verifying",
    "Schema": "schemas",
    "Written": "writing",
    "inspect": "inspecting",
    "parse_spec": "schemas",
    "read": "reading",
    "read_frame": "reading",
    "read_raw": "reading",
    "schema": "schemas",
    "verify": "verifying",
    "write": "writing",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    # Lazily: importing this package must not import NumPy or TensorFlow.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__
