"""What code written for TensorFlow 1 expects and TensorFlow no longer has.

`estimand.compat.v1.layers` stands in for `tf.compat.v1.layers`, which Keras 3 removed, `nn`,
`contrib` and `tpu` beside it for other parts that are gone. `estimand.install()` puts
`tf.estimator` back in place.
Nothing here loads TensorFlow until a name is used.
"""

from __future__ import annotations

import importlib
from types import ModuleType

_MODULES = ("v1",)


def __getattr__(name: str) -> ModuleType:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
