"""Stand-ins for parts of `tf.compat.v1` that are gone, loaded when first used.

>>> from estimand.compat.v1 import layers
>>> layers.dense.__name__
'dense'

The canned models with the defaults of `tf.compat.v1.estimator` are here by name:

>>> from estimand.compat import v1
>>> v1.DNNClassifier is v1.estimator.DNNClassifier
True
"""

from __future__ import annotations

import importlib
from typing import Any

_MODULES = ("contrib", "estimator", "layers", "nn", "rnn_cell", "tpu")
_MODELS = (
    "BaselineClassifier",
    "BaselineEstimator",
    "BaselineRegressor",
    "DNNClassifier",
    "DNNEstimator",
    "DNNLinearCombinedClassifier",
    "DNNLinearCombinedEstimator",
    "DNNLinearCombinedRegressor",
    "DNNRegressor",
    "LinearClassifier",
    "LinearEstimator",
    "LinearRegressor",
)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _MODELS:
        return getattr(importlib.import_module(f"{__name__}.estimator"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES, *_MODELS})
