"""Modules of TensorFlow's that moved, at the places where programs import them."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from estimand.compat.mapped_module import MappedModule, resolve
from estimand.compat.module_table import Names, _at
from estimand.core.tf_private.moved_modules import (
    MOVED,
    MOVED_NAMES,
    RENAMED,
    RENAMED_ARGUMENTS,
)

_OURS = "estimand.compat.private"
_LAYERS = "estimand.compat.v1.layers"

# Where TensorFlow looks for these in a Keras that has them no more.
_LAYER_NAMES: dict[str, Names] = {
    "tensorflow.python.layers.core": _at(_LAYERS, "Dense Dropout Flatten dense dropout flatten"),
    "tensorflow.python.layers.convolutional": _at(
        _LAYERS,
        "Conv1D Conv2D Conv3D Conv2DTranspose Conv3DTranspose SeparableConv1D SeparableConv2D "
        "conv1d conv2d conv3d conv2d_transpose conv3d_transpose separable_conv1d separable_conv2d",
    ),
    "tensorflow.python.layers.normalization": _at(
        _LAYERS, "BatchNormalization batch_normalization"
    ),
    "tensorflow.python.layers.pooling": _at(
        _LAYERS,
        "AveragePooling1D AveragePooling2D AveragePooling3D MaxPooling1D MaxPooling2D MaxPooling3D "
        "average_pooling1d average_pooling2d average_pooling3d max_pooling1d max_pooling2d "
        "max_pooling3d",
    ),
}

# What had to be written anew.
_WRITTEN: dict[str, Names] = {
    "tensorflow.python.eager.profiler": _at(
        f"{_OURS}.eager_profiler",
        "Profiler ProfilerAlreadyRunningError ProfilerNotRunningError save start "
        "start_profiler_server stop",
    ),
    "tensorflow.python.distribute.estimator_training": _at(
        f"{_OURS}.estimator_training",
        "estimator_evaluate estimator_train init_run_config should_run_distribute_coordinator "
        "train_and_evaluate",
    ),
    "tensorflow.examples": {},
    "tensorflow.examples.tutorials": {},
    "tensorflow.examples.tutorials.mnist": {},
    "tensorflow.examples.tutorials.mnist.input_data": _at(
        "estimand.compat.v1.mnist", "DataSet Datasets read_data_sets"
    ),
}


class MovedModule(MappedModule):
    """A module whose names are in others now; the first that has a name gives it."""

    def __init__(self, name: str, now: tuple[str, ...]) -> None:
        prefix = f"{name}:"
        renamed = {key.removeprefix(prefix): RENAMED[key] for key in RENAMED if prefix in key}
        super().__init__(name, {key: home for key, home in renamed.items() if ":" not in key})
        self._now = now

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in self.__dict__.get("_homes", {}):
            return super().__getattr__(name)
        for module in self.__dict__.get("_now", ()):
            moved = getattr(importlib.import_module(module), name, self)
            if moved is not self:
                setattr(self, name, moved)
                return moved
        return super().__getattr__(name)

    def home(self, name: str) -> str | None:
        known = super().home(name)
        return known or next((f"{m}:{name}" for m in self._now if _has(m, name)), None)


def modules() -> dict[str, ModuleType]:
    """By full name those that the TensorFlow at hand does not have, parents knowing children."""
    made: dict[str, ModuleType] = {
        **{name: MovedModule(name, now) for name, now in MOVED.items() if not _exists(name)},
        **{
            name: MappedModule(name, names) for name, names in _WRITTEN.items() if not _exists(name)
        },
    }
    for name, module in made.items():
        parent, _, child = name.rpartition(".")
        if parent in made:
            setattr(made[parent], child, module)
    return made


def moved_paths() -> frozenset[str]:
    """The full names of everything that `missing_names` may put back."""
    tables = {**MOVED_NAMES, **_LAYER_NAMES}
    return frozenset(f"{path}.{name}" for path, names in tables.items() for name in names)


def missing_names() -> Iterator[tuple[ModuleType, str, Any]]:
    """Names that moved out of modules which are still there: module, name and what it was."""
    for path, names in {**MOVED_NAMES, **_LAYER_NAMES}.items():
        if not _exists(path):
            continue
        module = importlib.import_module(path)
        for name, home in names.items():
            # Not by hasattr: some ask a Keras for it that does not have it.
            if name in vars(module):
                continue
            try:
                yield module, name, resolve(home)
            except (ImportError, AttributeError):
                continue  # it moved on, in the TensorFlow at hand


def old_arguments() -> Iterator[tuple[ModuleType, str, Any]]:
    """Functions that take an argument by the name it had, too: module, name and function."""
    for path, functions in RENAMED_ARGUMENTS.items():
        if _exists(path):
            module = importlib.import_module(path)
            for name, renamed in functions.items():
                yield module, name, _taking(getattr(module, name), renamed)


def _taking(function: Callable[..., Any], renamed: dict[str, str]) -> Callable[..., Any]:
    @functools.wraps(function)
    def take(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **{renamed.get(name, name): v for name, v in kwargs.items()})

    return take


def _has(module: str, name: str) -> bool:
    try:
        resolve(f"{module}:{name}")
    except (ImportError, AttributeError):
        return False
    return True


def _exists(name: str) -> bool:
    """Whether TensorFlow has a module, without loading it."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
