"""Modules that exist only as a table: each name is looked up where it lives when first used."""

from __future__ import annotations

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

    >>> paths = MappedModule("old.paths", {"join": "os.path:join", "path": "os.path"})
    >>> paths.join("a", "b")
    'a/b'
    >>> paths.jion
    Traceback (most recent call last):
    AttributeError: module 'old.paths' has no attribute 'jion'. It has: join, path.
    """

    def __init__(self, name: str, homes: Mapping[str, str]) -> None:
        super().__init__(name, f"`{name}`, as far as Estimand stands in for it.")
        self.__path__: list[str] = []  # Submodules are found in sys.modules, not on disk.
        self.__spec__ = ModuleSpec(name, None, is_package=True)
        self.__all__ = sorted(name for name in homes if not name.startswith("_"))
        self._homes = dict(homes)

    def __getattr__(self, name: str) -> Any:
        home = self.__dict__.get("_homes", {}).get(name)
        if home is None:
            raise AttributeError(
                f"module {self.__name__!r} has no attribute {name!r}. "
                f"It has: {', '.join(self.__all__)}.",
                name=name,
                obj=self,
            )
        value = resolve(home)
        setattr(self, name, value)
        return value

    def home(self, name: str) -> str | None:
        """Where a name lives, without going there."""
        return self._homes.get(name)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *self._homes} - {"_homes"})


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
