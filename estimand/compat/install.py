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
import functools
import importlib
import os
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from estimand.compat import (
    contrib_visibility,
    keras_choice,
    module_table,
    moved,
    old_protobuf,
    old_python,
)
from estimand.compat.mapped_module import MappedModule
from estimand.compat.v1 import contrib, devices
from estimand.compat.v1.sync_replicas import SyncReplicasOptimizer
from estimand.core import old_code, tf_private
from estimand.core.tf_private import kerases
from estimand.core.tf_private.kerases import keras2_rates

_ABSENT: Any = object()
# Modules of ours that stand in as they are.
_WHOLE = {
    "tensorflow.compat.v1.layers": "estimand.compat.v1.layers",
    "tensorflow.compat.v1.nn.rnn_cell": "estimand.compat.v1.rnn_cell",
}
# Where `tf.x` is to be found -> the module that is put there.
_ATTRIBUTES = {
    "estimator": "tensorflow.estimator",
    "keras.estimator": "tensorflow.keras.estimator",
    "python.estimator": "tensorflow.python.estimator",
    "compat.v2.estimator": "tensorflow.compat.v2.estimator",
    "compat.v2.keras.estimator": "tensorflow.keras.estimator",
    "compat.v1.estimator": "tensorflow.compat.v1.estimator",
    "compat.v1.keras.estimator": "tensorflow.compat.v1.keras.estimator",
    "compat.v1.layers": "tensorflow.compat.v1.layers",
    "compat.v1.nn.rnn_cell": "tensorflow.compat.v1.nn.rnn_cell",
}
# Packages that TensorFlow has itself.
_REAL = (
    "tensorflow",
    "tensorflow.compat",
    "tensorflow.compat.v1",
    "tensorflow.compat.v1.keras",
    "tensorflow.compat.v2",
    "tensorflow.keras",
    "tensorflow.python",
)
_CHECKED_COLUMNS = ("bucketized_column", "crossed_column", "embedding_column", "indicator_column")
# Owner, name and earlier value, in order of installing; empty while nothing is installed.
_before: list[tuple[Any, str, Any]] = []


def install(keras: int | None = None) -> None:
    """Put Estimand in the places where code looks for `tf.estimator`.

    These are `tf.estimator`, `tf.compat.v1.estimator`, `tf.keras.estimator`, the modules below
    `tensorflow_estimator.python.estimator` and `tensorflow.python.estimator`, and, because
    TensorFlow lost them as well, `tf.compat.v1.layers`, `tf.compat.v1.nn.rnn_cell` and the parts
    of `tf.contrib` that Estimator code used (`tf.contrib` is there for files that use it, and not
    for those that look for it to tell TensorFlow 1);
    also the optimizers of `tf.keras.optimizers.legacy`, which Keras 3 only names, and
    `tf.keras.layers.DenseFeatures`, which it lacks. Keras' `compile` takes optimizers of
    `tf.compat.v1.train` again. What Python has dropped since (`inspect.getargspec`,
    `collections.Mapping`, `time.clock`) is there, too, and modules that an old `protoc` has
    compiled (`_pb2.py`) are imported.
    Call it before the code that needs them is imported. Calling it again changes nothing.

    Args:
        keras: which Keras `tf.keras` is to be, 2 (`tf_keras`) or 3. None: 3, and 2 for a program
            that is found to be written for it.

    >>> import estimand, tensorflow as tf
    >>> estimand.install()
    >>> tf.estimator.Estimator is estimand.Estimator
    True
    >>> estimand.compat.install.uninstall()
    """
    if _before:
        return
    keras_choice.choose(keras, getattr(sys.modules["__main__"], "__file__", None))
    import tensorflow as tf

    _set(old_code, "expected", True)
    missing = [*old_python.missing(), *moved.missing_names(), *devices.missing_methods()]
    for owner, name, value in [*missing, *moved.old_arguments()]:
        _set(owner, name, value)
    for name, module in _modules().items():
        _before.append((sys.modules, name, sys.modules.get(name, _ABSENT)))
        sys.modules[name] = module
    contrib.finder.put_in()
    old_protobuf.finder.put_in()
    # First: it loads Keras, which puts another module in the place of `tf.keras`.
    if kerases.current() is kerases.KERAS3:  # Keras 2 has all of this
        _supply_legacy_optimizers(tf)
        _supply_dense_features(tf)
        _let_keras_take_v1_optimizers()
        _let_keras_be_imported_below_other_faces(tf)
    else:
        for owner, name, value in keras2_rates.old_arguments():
            _set(owner, name, value)
    _let_columns_check_what_they_are_made_of(tf)
    for face in _distinct([tf, *map(tf_private.unwrapped, _faces("v1"))]):
        before = vars(face).get("__getattr__")
        _set(face, "__getattr__", contrib_visibility.finder(face.__name__, before))
    for owner in _owners(tf, "compat.v1.train"):
        _set(owner, "SyncReplicasOptimizer", SyncReplicasOptimizer)
    for path, module_name in _ATTRIBUTES.items():
        above, _, attribute = path.rpartition(".")
        for owner in _owners(tf, above):
            _set(owner, attribute, sys.modules[module_name])


def supplied_modules() -> dict[str, ModuleType]:
    """The modules that `install()` supplies, by full name; nothing is put in place."""
    return _modules()


def supplied_attributes() -> dict[str, str]:
    """Paths below TensorFlow, such as `tensorflow.estimator`, and the modules to be found there."""
    return {f"tensorflow.{path}": module for path, module in _ATTRIBUTES.items()}


def supplied_to_keras() -> frozenset[str]:
    """Paths of what Keras 2 had and `tf.keras` gets back: `tensorflow.keras.experimental` etc."""
    paths = {"layers.DenseFeatures"}
    for module, names in module_table.KERAS_EXPERIMENTAL.items():
        paths |= {module, *(f"{module}.{name}" for name in names)}
    return frozenset(f"tensorflow.keras.{path}" for path in paths)


def _supply_legacy_optimizers(tf: ModuleType) -> None:
    """`tf.keras.optimizers.legacy`, which canned estimators were given: in Keras 3 only a name."""
    from estimand.canned import optimizers

    legacy = tf.keras.optimizers.legacy
    for name in ("Adagrad", "Adam", "Ftrl", "RMSprop", "SGD"):
        _set(legacy, name, getattr(optimizers, name))
    _set(legacy, "Optimizer", optimizers.LegacyOptimizer)


def _supply_dense_features(tf: ModuleType) -> None:
    """Names that Keras 2 had; `tf.keras` of the other faces may be modules of their own."""
    if hasattr(tf.keras.layers, "DenseFeatures"):
        return
    from estimand.features.keras_layers import DenseFeatures

    faces = [tf, *_faces("v1"), *_faces("v2")]
    supplied: tuple[tuple[str, str, Any], ...] = (
        ("layers", "DenseFeatures", DenseFeatures),
        ("layers", "experimental", _of_keras("layers.experimental")),
        ("", "experimental", _of_keras("experimental")),
    )
    for below, name, value in supplied:
        for owner in _distinct([getattr(f.keras, below) if below else f.keras for f in faces]):
            if not hasattr(owner, name):
                _set(owner, name, value)


def _let_columns_check_what_they_are_made_of(tf: ModuleType) -> None:
    """TensorFlow takes any column, and fails with an AttributeError when the model is built."""
    from estimand.features import feature_column

    faces = [tf, *_faces("v1"), *_faces("v2")]
    for owner in _distinct([face.feature_column for face in faces]):
        for name in _CHECKED_COLUMNS:
            _set(owner, name, getattr(feature_column, name))


def _of_keras(path: str) -> ModuleType:
    module = MappedModule(f"tensorflow.keras.{path}", module_table.KERAS_EXPERIMENTAL[path])
    if path == "layers.experimental":
        module.preprocessing = _of_keras(f"{path}.preprocessing")  # type: ignore[attr-defined]
    return module


def _distinct(owners: list[Any]) -> list[Any]:
    return [owner for i, owner in enumerate(owners) if all(owner is not o for o in owners[:i])]


def _let_keras_take_v1_optimizers() -> None:
    from estimand.bridge.v1_in_keras import lookup

    for module in tf_private.keras_optimizer_lookups():
        _set(module, "get", lookup(module.get))


def _let_keras_be_imported_below_other_faces(tf: ModuleType) -> None:
    """`from tensorflow.compat.v1.keras.layers import Dense`, as with Keras 2.

    With Keras 3, TensorFlow sees to `tensorflow.keras` alone.
    """
    folders = [path for path in tf.__path__ if os.path.isdir(os.path.join(path, "keras"))]
    for face in _distinct([*_faces("v1"), *_faces("v2")]):
        _set(face, "__path__", [*face.__path__, *folders])


def _owners(tf: ModuleType, path: str) -> list[Any]:
    """The modules that are reached at a path below TensorFlow."""
    parts = path.split(".")
    if parts[0] == "compat":
        starts, parts = _faces(parts[1]), parts[2:]
    elif path == "python":
        starts, parts = [importlib.import_module("tensorflow.python")], []
    else:
        starts = [tf]
    objects = [functools.reduce(getattr, filter(None, parts), start) for start in starts]
    return _distinct(objects)


def _faces(version: str) -> list[ModuleType]:
    """All modules that are `compat.v1` of something, or `compat.v2`.

    `tf.compat.v1` is one module before somebody imports `tensorflow.compat.v1` and another one
    after; and each face has both faces once more, as `tensorflow.compat.v2.compat.v1`.
    """
    importlib.import_module(f"tensorflow.compat.{version}")
    return [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("tensorflow.") and name.endswith(f".compat.{version}") and module
    ]


def uninstall() -> None:
    """Undo `install()`: what was there before is there again."""
    if _before:
        contrib.finder.take_out()
        old_protobuf.finder.take_out()
    while _before:
        owner, name, value = _before.pop()
        if _is_table(owner):
            _restore(owner if owner is sys.modules else vars(owner), name, value)
        elif value is _ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, value)


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


def _set(owner: Any, name: str, value: Any) -> None:
    if _is_table(owner):
        _before.append((owner, name, vars(owner).get(name, _ABSENT)))
        vars(owner)[name] = value
    else:
        # Of a module only what it holds itself: some ask a Keras for names that it has not.
        own = isinstance(owner, ModuleType)
        before = vars(owner).get(name, _ABSENT) if own else getattr(owner, name, _ABSENT)
        _before.append((owner, name, before))
        setattr(owner, name, value)


def _is_table(owner: Any) -> bool:
    """Whether to work on a plain dict: the stand-in for Keras loads Keras when asked nicely."""
    return owner is sys.modules or type(owner).__name__.endswith("LazyLoader")


def _restore(namespace: dict[str, Any], name: str, value: Any) -> None:
    if value is _ABSENT:
        namespace.pop(name, None)
    else:
        namespace[name] = value


def _modules() -> dict[str, ModuleType]:
    """All modules by full name, parents knowing their children."""
    homes: dict[str, dict[str, str]] = {}
    for root, faces in module_table.API.items():
        for below, names in faces.items():
            older = module_table.OLD.get(below, {}) if not root.endswith("keras.estimator") else {}
            homes[f"{root}.{below}" if below else root] = names | older
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
    modules |= contrib.modules()
    modules |= moved.modules()
    for name, ours in _WHOLE.items():
        modules[name] = importlib.import_module(ours)
    return modules


def _parents(name: str) -> Iterator[str]:
    """The packages above, without those that TensorFlow has itself."""
    while "." in name:
        name = name.rpartition(".")[0]
        if name not in _REAL:
            yield name
