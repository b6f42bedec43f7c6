"""The model server: TensorFlow Serving's protocol, gRPC and REST, for any SavedModel.

It knows nothing of training: the two meet on disk. Start it from the command line, or from Python:

>>> from estimand.serving import Flags
>>> Flags(model_name="half", model_base_path="/models/half").port
8500
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from estimand.core.interpreter.lazy_names import lazy_names

# Public name -> the module where it lives. Lazily: reading the flags needs no TensorFlow.
_HOME = {
    "Client": "estimand.serving.client.client",
    "CustomServable": "estimand.serving.models.custom",
    "DeadlineError": "estimand.serving.client.errors",
    "Flags": "estimand.serving.flags",
    "ModelNotFoundError": "estimand.serving.client.errors",
    "RequestError": "estimand.serving.client.errors",
    "Retries": "estimand.serving.client.retry",
    "ServableSignature": "estimand.serving.models.custom",
    "ServerUnreachableError": "estimand.serving.client.errors",
    "serve": "estimand.serving.process.server",
}

__all__ = sorted(_HOME)

if TYPE_CHECKING:
    from estimand.serving.client.client import Client as Client
    from estimand.serving.client.errors import DeadlineError as DeadlineError
    from estimand.serving.client.errors import ModelNotFoundError as ModelNotFoundError
    from estimand.serving.client.errors import RequestError as RequestError
    from estimand.serving.client.errors import ServerUnreachableError as ServerUnreachableError
    from estimand.serving.client.retry import Retries as Retries
    from estimand.serving.flags import Flags as Flags
    from estimand.serving.models.custom import CustomServable as CustomServable
    from estimand.serving.models.custom import ServableSignature as ServableSignature
    from estimand.serving.process.server import serve as serve
else:
    __getattr__, __dir__ = lazy_names(__name__, _HOME)
