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
    "Client": "estimand.serving.client",
    "CustomServable": "estimand.serving.servable_protocol",
    "DeadlineError": "estimand.serving.client_errors",
    "Flags": "estimand.serving.flags",
    "ModelNotFoundError": "estimand.serving.client_errors",
    "RequestError": "estimand.serving.client_errors",
    "Retries": "estimand.serving.client_retry",
    "ServableSignature": "estimand.serving.servable_protocol",
    "ServerUnreachableError": "estimand.serving.client_errors",
    "serve": "estimand.serving.server",
}

__all__ = sorted(_HOME)

if TYPE_CHECKING:
    from estimand.serving.client import Client as Client
    from estimand.serving.client_errors import DeadlineError as DeadlineError
    from estimand.serving.client_errors import ModelNotFoundError as ModelNotFoundError
    from estimand.serving.client_errors import RequestError as RequestError
    from estimand.serving.client_errors import ServerUnreachableError as ServerUnreachableError
    from estimand.serving.client_retry import Retries as Retries
    from estimand.serving.flags import Flags as Flags
    from estimand.serving.servable_protocol import CustomServable as CustomServable
    from estimand.serving.servable_protocol import ServableSignature as ServableSignature
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
