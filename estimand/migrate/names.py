"""Where a name of TensorFlow is found today: there, by Estimand, or nowhere."""

from __future__ import annotations

import enum
import functools
import importlib
from types import ModuleType
from typing import Any

from estimand.compat import install, moved
from estimand.compat.mapped_module import MappedModule
from estimand.migrate.uses import Target

# Homes of names that exist to say that there is nothing behind them.
_ABSENT = "estimand.compat.private.absent"
_MISSING: Any = object()


class NameHome(enum.Enum):
    """Who has a name."""

    THERE = "TensorFlow and Keras have it"
    SUPPLIED = "Estimand supplies it"
    NOWHERE = "nobody has it"


class Names:
    """Looks names up, in the world of TensorFlow 2 and, for files that want it, TensorFlow 1."""

    def __init__(self) -> None:
        import tensorflow as tf

        from estimand.compat.v1.view import tf as view

        self.tf2: Any = tf
        self.tf1: Any = view
        self._supplied = install.supplied_modules()
        self._aliases = install.supplied_attributes()
        self._to_keras = install.supplied_to_keras()
        self._moved = moved.moved_paths()
        self.find = functools.lru_cache(maxsize=None)(self._find)

    def _find(self, target: Target, v1: bool) -> NameHome:
        """Who has what a name stands for, in a file that gets TensorFlow 1 or 2."""
        if path_of_keras(target.path) in self._to_keras:
            return NameHome.SUPPLIED
        if target.of_tf and v1:
            return self._find_in_tf1(target.path)
        return self._find_installed(target.path)

    def _find_in_tf1(self, path: str) -> NameHome:
        below = path.partition(".")[2]
        value = follow(self.tf1, below)
        if value is _MISSING:
            return NameHome.NOWHERE
        # In TensorFlow 2 the same path may be another thing: still the file has to be run as v1.
        return NameHome.SUPPLIED if self._by_us(path, value) else NameHome.THERE

    def _by_us(self, path: str, value: Any) -> bool:
        home = getattr(value, "__module__", None) or getattr(value, "__name__", "")
        return str(home).startswith("estimand") or self._supplier(path) is not None

    def _find_installed(self, path: str) -> NameHome:
        supplier = self._supplier(path)
        if supplier is not None:
            module, below = supplier
            return NameHome.SUPPLIED if _has(module, below) else NameHome.NOWHERE
        if any(path == moved or path.startswith(f"{moved}.") for moved in self._moved):
            return NameHome.SUPPLIED
        root, _, below = path.partition(".")
        if root == "tensorflow_estimator":
            return NameHome.NOWHERE
        if path.startswith("tensorflow.keras.optimizers.legacy"):
            return NameHome.SUPPLIED  # Keras 3 only names them
        start = self.tf2 if root == "tensorflow" else importlib.import_module(root)
        return NameHome.NOWHERE if follow(start, below) is _MISSING else NameHome.THERE

    def _supplier(self, path: str) -> tuple[ModuleType, str] | None:
        """The module of ours with the longest name that the path begins with, and the rest."""
        for alias, name in self._aliases.items():
            if path == alias or path.startswith(f"{alias}."):
                path = name + path.removeprefix(alias)
                break
        parts = path.split(".")
        for count in range(len(parts), 0, -1):
            module = self._supplied.get(".".join(parts[:count]))
            if module is not None:
                return module, ".".join(parts[count:])
        return None

    def has_attribute(self, path: str) -> bool:
        """Whether `tf.path` is there in TensorFlow 2, with `install()` called."""
        full = f"tensorflow.{path}"
        for alias, module in self._aliases.items():
            if full == alias or full.startswith(f"{alias}."):
                return _has(self._supplied[module], full.removeprefix(alias).lstrip("."))
        return follow(self.tf2, path) is not _MISSING

    def first_missing(self, path: str) -> str:
        """The shortest beginning of a path that leads nowhere."""
        parts = path.split(".")
        beginnings = [".".join(parts[:count]) for count in range(2, len(parts))]
        return next((beginning for beginning in beginnings if not self._anywhere(beginning)), path)

    def _anywhere(self, path: str) -> bool:
        return any(
            self.find(Target(path, of_tf), v1) is not NameHome.NOWHERE
            for of_tf, v1 in ((False, False), (True, True))
        )

    def siblings(self, path: str) -> list[str]:
        """What there is beside a name that is not there."""
        parent = path.rpartition(".")[0]
        supplier = self._supplier(parent)
        if supplier is not None and not supplier[1]:
            owner: Any = supplier[0]
        else:
            root, _, below = parent.partition(".")
            start = self.tf1 if root == "tensorflow" else importlib.import_module(root)
            owner = follow(start, below)
        return [] if owner is _MISSING else [n for n in dir(owner) if not n.startswith("_")]


def path_of_keras(path: str) -> str:
    """The same path, whichever face of TensorFlow it was reached by.

    >>> path_of_keras("tensorflow.compat.v1.keras.layers.Dense")
    'tensorflow.keras.layers.Dense'
    """
    for face in ("compat.v1.", "compat.v2."):
        path = path.replace(f"tensorflow.{face}keras.", "tensorflow.keras.")
    return path


def follow(start: Any, path: str) -> Any:
    """What a path leads to, as far as it leads through modules."""
    value = start
    for part in filter(None, path.split(".")):
        if not isinstance(value, ModuleType):
            return value
        try:
            value = getattr(value, part)
        except (AttributeError, ImportError):
            value = _submodule(value, part)
            if value is _MISSING:
                return _MISSING
    return value


def is_missing(value: Any) -> bool:
    """Whether `follow` found nothing."""
    return value is _MISSING


def _submodule(parent: ModuleType, name: str) -> Any:
    try:
        return importlib.import_module(f"{parent.__name__}.{name}")
    except Exception:  # whatever somebody else's module does when it is loaded
        return _MISSING


def _has(module: ModuleType, below: str) -> bool:
    if not below:
        return True
    name, _, rest = below.partition(".")
    if isinstance(module, MappedModule):
        home = module.home(name)
        if home is not None:
            return not home.startswith(_ABSENT)
    inner = getattr(module, name, _MISSING)
    if isinstance(inner, ModuleType):
        return _has(inner, rest)
    return inner is not _MISSING
