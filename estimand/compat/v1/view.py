"""`tf` as programs of the TensorFlow 1 years know it.

Everything is TensorFlow's own `tf.compat.v1`, except for what is gone from it: `tf.estimator`,
`tf.layers`, `tf.nn.rnn_cell`, `tf.contrib` and `tf.keras.estimator` are ours.

>>> from estimand.compat.v1.view import tf
>>> tf.placeholder.__name__, tf.layers.dense.__name__, tf.contrib.training.HParams.__name__
('placeholder', 'dense', 'HParams')
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import tensorflow

from estimand.compat import module_table
from estimand.compat.mapped_module import MappedModule
from estimand.compat.v1 import contrib, layers, nn


class View(ModuleType):
    """A module with some names replaced."""

    def __init__(self, name: str, base: Any, **replaced: Any) -> None:
        super().__init__(name, getattr(base, "__doc__", None))
        self.__dict__.update(replaced, _base=base)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_base"], name)

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._base), *self.__dict__} - {"_base"})


def _estimator() -> ModuleType:
    names_of = {p: n | module_table.OLD.get(p, {}) for p, n in module_table.V1.items()}
    root = MappedModule("tensorflow.estimator", names_of[""])
    for path, names in names_of.items():
        parent: Any = root
        *above, last = path.split(".")
        for part in above:
            parent = getattr(parent, part)
        if path:
            setattr(parent, last, MappedModule(f"tensorflow.estimator.{path}", names))
    return root


_REPLACED: dict[str, Any] = {
    "__file__": tensorflow.__file__,
    "__path__": tensorflow.__path__,
    "__spec__": tensorflow.__spec__,
    "compat": tensorflow.compat,
    "estimator": _estimator(),
    "keras": View(
        "tensorflow.keras",
        tensorflow.keras,
        estimator=MappedModule("tensorflow.keras.estimator", module_table.KERAS),
    ),
    "layers": layers,
    "nn": nn,
}
# What programs ask to learn which of their two ways to go: the one of the names that they find.
_OF_VERSION_1: dict[str, Any] = {
    "__version__": "1.15.5",
    "VERSION": "1.15.5",
    "version": View("tensorflow.version", tensorflow.version, VERSION="1.15.5"),
}
_V1: Any = tensorflow.compat.v1
tf: Any = View("tensorflow", _V1, **_REPLACED, **_OF_VERSION_1, contrib=contrib)
tf_without_contrib: Any = View("tensorflow", _V1, **_REPLACED, **_OF_VERSION_1)
# For files that look whether there is contrib, and have a way to do without: it is for version 2.
tf_for_either: Any = View("tensorflow", _V1, **_REPLACED, __version__=tensorflow.__version__)
