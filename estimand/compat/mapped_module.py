"""Modules that exist only as a table: each name is looked up where it lives when first used."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any


class MappedModule(ModuleType):
    """A module whose names have their homes elsewhere.

    Args:
        name: the full name, as in `sys.modules`.
        homes: name -> "module:attribute", "module:attribute.attribute" or "module".
        library: a module that has further names; where it is not installed, None.
        advice: how to come by names that there are not.

    >>> paths = MappedModule("old.paths", {"join": "os.path:join", "path": "os.path"})
    >>> paths.join("a", "b")
    'a/b'
    >>> paths.jion
    Traceback (most recent call last):
    AttributeError: module 'old.paths' has no attribute 'jion'. It has: join, path.
    """

    def __init__(
        self, name: str, homes: Mapping[str, str], library: str | None = None, advice: str = ""
    ) -> None:
        super().__init__(name, f"`{name}`, as far as Estimand stands in for it.")
        self.__path__: list[str] = []  # Submodules are found in sys.modules, not on disk.
        self.__spec__ = ModuleSpec(name, None, is_package=True)
        self.__all__ = sorted(name for name in homes if not name.startswith("_"))
        self._homes = dict(homes)
        self._library, self._advice = library, advice

    def __getattr__(self, name: str) -> Any:
        home = self.__dict__.get("_homes", {}).get(name)
        if home is not None:
            value = resolve(home)
        elif self._in_library(name):
            value = resolve(f"{self._library}:{name}")
        else:
            there = ", ".join(self.__all__) or "nothing"
            raise AttributeError(
                f"module {self.__name__!r} has no attribute {name!r}. "
                f"It has: {there}.{self.__dict__.get('_advice', '')}",
                name=name,
                obj=self,
            )
        setattr(self, name, value)
        return value

    def _in_library(self, name: str) -> bool:
        library = self.__dict__.get("_library")
        if library is None or name.startswith("__"):
            return False
        return hasattr(importlib.import_module(library), name)

    def home(self, name: str) -> str | None:
        """Where a name lives, without going there; those of a library are looked up in it."""
        if name in self._homes:
            return self._homes[name]
        with contextlib.suppress(ImportError):
            return f"{self._library}:{name}" if self._in_library(name) else None
        return None

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *self._homes} - {"_homes", "_library", "_advice"})


def resolve(home: str) -> Any:
    """The object at "module:attribute".

    >>> resolve("os.path:join").__name__
    'join'
    """
    module, _, path = home.partition(":")
    value: Any = importlib.import_module(module)
    for attribute in filter(None, path.split(".")):
        value = getattr(value, attribute)
    return value
