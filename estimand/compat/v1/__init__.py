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
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from estimand.compat.v1 import contrib as contrib
    from estimand.compat.v1 import estimator as estimator
    from estimand.compat.v1 import layers as layers
    from estimand.compat.v1 import nn as nn
    from estimand.compat.v1 import rnn_cell as rnn_cell
    from estimand.compat.v1 import tpu as tpu
    from estimand.compat.v1.estimator import BaselineClassifier as BaselineClassifier
    from estimand.compat.v1.estimator import BaselineEstimator as BaselineEstimator
    from estimand.compat.v1.estimator import BaselineRegressor as BaselineRegressor
    from estimand.compat.v1.estimator import DNNClassifier as DNNClassifier
    from estimand.compat.v1.estimator import DNNEstimator as DNNEstimator
    from estimand.compat.v1.estimator import (
        DNNLinearCombinedClassifier as DNNLinearCombinedClassifier,
    )
    from estimand.compat.v1.estimator import (
        DNNLinearCombinedEstimator as DNNLinearCombinedEstimator,
    )
    from estimand.compat.v1.estimator import (
        DNNLinearCombinedRegressor as DNNLinearCombinedRegressor,
    )
    from estimand.compat.v1.estimator import DNNRegressor as DNNRegressor
    from estimand.compat.v1.estimator import LinearClassifier as LinearClassifier
    from estimand.compat.v1.estimator import LinearEstimator as LinearEstimator
    from estimand.compat.v1.estimator import LinearRegressor as LinearRegressor
else:

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            return importlib.import_module(f"{__name__}.{name}")
        if name in _MODELS:
            return getattr(importlib.import_module(f"{__name__}.estimator"), name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted({*globals(), *_MODULES, *_MODELS})
