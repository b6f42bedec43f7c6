"""`estimand.install()`: from here on `tf.estimator` exists again, and it is Estimand.

>>> import estimand, tensorflow as tf
>>> estimand.install()
>>> tf.estimator.Estimator is estimand.Estimator
True
>>> from tensorflow_estimator.python.estimator import run_config
>>> run_config.RunConfig is estimand.RunConfig
True
>>> from estimand.compat.install import uninstall
>>> uninstall()
>>> hasattr(tf, "estimator")
False
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from estimand.compat import module_table
from estimand.compat.mapped_module import MappedModule

_ABSENT: Any = object()
# What to put back, in order of installing; empty while nothing is installed.
_before: list[tuple[dict[str, Any], str, Any]] = []


def install() -> None:
    """Put Estimand in the places where code looks for `tf.estimator`.

    These are `tf.estimator`, `tf.compat.v1.estimator`, `tf.keras.estimator`, the modules below
    `tensorflow_estimator.python.estimator` and `tensorflow.python.estimator`, and, because
    TensorFlow lost them at the same time, `tf.compat.v1.layers` and `tf.compat.v1.nn.rnn_cell`.
    Call it before the code that needs them is imported. Calling it again changes nothing.
    """
    if _before:
        return
    import tensorflow as tf

    v1 = tf.compat.v1
    for name, module in _modules().items():
        _put(sys.modules, name, module)
    for owner, below in ((tf, "tensorflow"), (v1, "tensorflow.compat.v1")):
        _put(vars(owner), "estimator", sys.modules[f"{below}.estimator"])
        # The Keras of TensorFlow is a stand-in that loads at the first look at a name: setting
        # one does not load it.
        _put(vars(owner.keras), "estimator", sys.modules[f"{below}.keras.estimator"])
    _put(vars(tf.compat.v2), "estimator", sys.modules["tensorflow.compat.v2.estimator"])
    internal = importlib.import_module("tensorflow.python")
    _put(vars(internal), "estimator", sys.modules["tensorflow.python.estimator"])
    for owner, name, ours in (
        (v1, "layers", "estimand.compat.v1.layers"),
        (v1.nn, "rnn_cell", "estimand.compat.v1.rnn_cell"),
    ):
        module = importlib.import_module(ours)
        _put(vars(owner), name, module)
    for name in ("layers", "nn.rnn_cell"):
        home = importlib.import_module(f"estimand.compat.v1.{name.rpartition('.')[2]}")
        _put(sys.modules, f"tensorflow.compat.v1.{name}", home)


def uninstall() -> None:
    """Undo `install()`: what was there before is there again."""
    while _before:
        namespace, name, value = _before.pop()
        if value is _ABSENT:
            namespace.pop(name, None)
        else:
            namespace[name] = value


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """`install()` for a block, undone at its end unless it was installed before."""
    was_installed = bool(_before)
    install()
    try:
        yield
    finally:
        if not was_installed:
            uninstall()


def _put(namespace: dict[str, Any], name: str, value: Any) -> None:
    _before.append((namespace, name, namespace.get(name, _ABSENT)))
    namespace[name] = value


def _modules() -> dict[str, ModuleType]:
    """All modules by full name, parents knowing their children."""
    homes: dict[str, dict[str, str]] = {}
    for root, faces in module_table.API.items():
        for below, names in faces.items():
            homes[f"{root}.{below}" if below else root] = names
    for root in module_table.PRIVATE_ROOTS:
        for below, names in module_table.PRIVATE.items():
            homes[f"{root}.{below}"] = names
    for name in list(homes):
        for parent in _parents(name):
            homes.setdefault(parent, {})
    modules: dict[str, ModuleType] = {name: MappedModule(name, homes[name]) for name in homes}
    for name, module in modules.items():
        parent, _, child = name.rpartition(".")
        if parent in modules:
            setattr(modules[parent], child, module)
    return modules


def _parents(name: str) -> Iterator[str]:
    """The packages above, without those that TensorFlow has itself."""
    while "." in name:
        name = name.rpartition(".")[0]
        if name not in _REAL:
            yield name


_REAL = (
    "tensorflow",
    "tensorflow.compat",
    "tensorflow.compat.v1",
    "tensorflow.compat.v1.keras",
    "tensorflow.compat.v2",
    "tensorflow.keras",
    "tensorflow.python",
)
