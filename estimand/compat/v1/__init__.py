"""Stand-ins for parts of `tf.compat.v1` that are gone, loaded when first used.

>>> from estimand.compat.v1 import layers
>>> layers.dense.__name__
'dense'
"""

from __future__ import annotations

import importlib
from types import ModuleType

_MODULES = ("layers",)


def __getattr__(name: str) -> ModuleType:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
