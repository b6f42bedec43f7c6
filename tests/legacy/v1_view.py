"""`tf` as programs of the TensorFlow 1 years know it: `from tests.legacy.v1_view import tf`.

Everything is TensorFlow's own `tf.compat.v1`, except for what is gone from it: `tf.estimator`,
`tf.layers` and `tf.contrib.training.HParams` are ours.
"""

from __future__ import annotations

from types import ModuleType, SimpleNamespace
from typing import Any

import tensorflow

import estimand
from estimand.compat.v1 import layers
from estimand.core import export_output


class View(ModuleType):
    """A module with some names replaced."""

    def __init__(self, name: str, base: ModuleType, **replaced: Any) -> None:
        super().__init__(name)
        self._base = base
        self.__dict__.update(replaced)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._base, name)


tf = View(
    "tf",
    tensorflow.compat.v1,
    estimator=View("tf.estimator", estimand, export=export_output),
    layers=layers,
    contrib=SimpleNamespace(training=SimpleNamespace(HParams=estimand.HParams)),
)
