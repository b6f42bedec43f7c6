"""The model server: TensorFlow Serving's protocol, gRPC and REST, for any SavedModel.

It knows nothing of training: the two meet on disk. Start it from the command line, or from Python:

>>> from estimand.serving import Flags
>>> Flags(model_name="half", model_base_path="/models/half").port
8500
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False

# Public name -> the module where it lives. Lazily: reading the flags needs no TensorFlow.
_HOME = {
    "Flags": "estimand.serving.flags",
    "serve": "estimand.serving.server",
}

__all__ = sorted(_HOME)

if TYPE_CHECKING:
    from estimand.serving.flags import Flags as Flags
    from estimand.serving.server import serve as serve
else:

    def __getattr__(name: str) -> object:
        if name not in _HOME:
            raise AttributeError(
                f"estimand.serving has no public name {name!r}; it has: {', '.join(__all__)}."
            )
        return getattr(import_module(_HOME[name]), name)

    def __dir__() -> list[str]:
        return __all__
