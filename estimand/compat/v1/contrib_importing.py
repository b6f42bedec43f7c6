"""Parts of contrib, and the modules in which their code lay: `contrib.rnn.python.ops.…`.

TensorFlow 1 had the code of `contrib.rnn` below `contrib/rnn/python`, and programs import it from
there. Which file had which name is not told: every module below has all names of its part.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from estimand.compat.mapped_module import MappedModule
from estimand.compat.removed import replacement
from estimand.compat.v1 import contrib_absent
from estimand.compat.v1.contrib_modules.table import PRIVATE

ROOT = "tensorflow.contrib"
# `contrib/<part>/python/<folder>/<file>`; in these, folders lay one deeper.
_DEEPER = ("learn", "slim")
# In these a folder had files and no names: `contrib.estimator.python.estimator.multi_head`.
_OF_FILES_ONLY = ("estimator",)


class Part(MappedModule):
    """A part of contrib, or a module below one; `python` is where its code lay."""

    def __getattr__(self, name: str) -> Any:
        if self.has_module(name):
            return self.module(name)
        try:
            return super().__getattr__(name)
        except AttributeError as absent:
            if name.startswith("__"):
                raise
            told = self._told(absent)
            if contrib_absent.is_imported_at_any_rate():
                return contrib_absent.AbsentName(told)
            raise AttributeError(told, name=name, obj=self) from None

    def _told(self, absent: AttributeError) -> str:
        """What is said of a name that there is not."""
        return str(absent)

    def has_module(self, name: str) -> bool:
        return name == "python" and self.__name__.count(".") == ROOT.count(".") + 1

    def module(self, name: str) -> ModuleType:
        """The module below with that name, the same each time."""
        made = self.__dict__.setdefault("_modules", {})
        if name not in made:
            made[name] = self._made(name)
        return made[name]

    def _made(self, name: str) -> ModuleType:
        return _Implementation(self, self, ())

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if name != "_modules"]


class _Implementation(Part):
    """`contrib.<part>.python` and each module below it: the names of the part.

    Where the end of the path is a public module of the part, it is the names of that one:
    `learn.python.learn.datasets.mnist` is `learn.datasets.mnist`.
    """

    def __init__(self, part: Part, public: MappedModule, path: tuple[str, ...]) -> None:
        name = ".".join((part.__name__, "python", *path))
        private = PRIVATE.get(part.__name__.removeprefix(f"{ROOT}."), {})
        super().__init__(name, public._homes | private, public._library, public._advice)
        self._part, self._public, self._below = part, public, path

    def __getattr__(self, name: str) -> Any:
        # The public module knows its own modules, too; what it has is no module of ours.
        if not name.startswith("__") and not self._is_file_in_folder(name):
            public = self.__dict__["_public"]
            if public.home(name) is not None or name in vars(public):
                return getattr(public, name)
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        # `import …ops.arg_scope` would hide the function of the same name, as it never did.
        if not (isinstance(value, ModuleType) and name in self.__dict__.get("_homes", {})):
            super().__setattr__(name, value)

    def _told(self, absent: AttributeError) -> str:
        return self._part._told(absent)

    def _is_file_in_folder(self, name: str) -> bool:
        part = self._part.__name__.rpartition(".")[2]
        return part in _OF_FILES_ONLY and len(self._below) == 1 and self.has_module(name)

    def has_module(self, name: str) -> bool:
        deepest = 3 if self._part.__name__.rpartition(".")[2] in _DEEPER else 2
        is_file_name = name.islower() and not name.startswith("_")
        return is_file_name and len(self._below) < deepest

    def _made(self, name: str) -> ModuleType:
        path = (*self._below, name)
        return _Implementation(self._part, self._public_module(path), path)

    def _public_module(self, path: tuple[str, ...]) -> MappedModule:
        """The module of the part that the end of a path leads to; else the part."""
        for start in range(len(path)):
            module: Any = self._part
            for name in path[start:]:
                module = vars(module).get(name)
                if not isinstance(module, MappedModule):
                    break
            else:
                return module
        return self._part

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Whoever calls it meant a function, which is not there."""
        name = self.__name__.rpartition(".")[2]
        raise TypeError(
            f"{self._part.__name__} has no {name!r}. It has: {', '.join(self._part.__all__)}."
            f"{self._part._advice}"
        )


class Contrib(Part):
    """`tf.contrib` itself."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            return super().__getattr__(name)
        raise AttributeError(not_offered(name, self.parts()), name=name, obj=self)

    def has_module(self, name: str) -> bool:
        return name in contrib_absent.PARTS and contrib_absent.is_imported_at_any_rate()

    def _made(self, name: str) -> ModuleType:
        return _AbsentPart(f"{self.__name__}.{name}", self)

    def parts(self) -> list[str]:
        """Those that are offered."""
        parts = (name for name, value in vars(self).items() if isinstance(value, Part))
        return sorted(name for name in parts if not isinstance(vars(self)[name], _AbsentPart))


class _AbsentPart(Part):
    """A part that is imported, perhaps never to be used."""

    def __init__(self, name: str, contrib: Contrib) -> None:
        super().__init__(name, {})
        self._contrib = contrib

    def _told(self, absent: AttributeError) -> str:
        return not_offered(self.__name__.rpartition(".")[2], self._contrib.parts())


def not_offered(part: str, offered: list[str]) -> str:
    """What is said of a part that there is not."""
    instead = replacement(f"contrib.{part}")
    advice = f"; in its place: {instead}" if instead else ""
    return f"tf.contrib.{part} is not offered{advice}. Offered are: {', '.join(offered)}."


class Finder(MetaPathFinder, Loader):
    """Finds what is imported below the parts of contrib that are in `sys.modules`."""

    def __init__(self) -> None:
        self._loaded: list[str] = []

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        above, _, name = fullname.rpartition(".")
        parent = sys.modules.get(above)
        if isinstance(parent, Contrib) and not parent.has_module(name):
            # Not by its full name: `from tensorflow.contrib import x` would say less.
            raise ModuleNotFoundError(not_offered(name, parent.parts()), name=name)
        if isinstance(parent, Part) and parent.has_module(name):
            return ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        above, _, name = spec.name.rpartition(".")
        self._loaded.append(spec.name)
        parent: Any = sys.modules[above]
        return parent.module(name)

    def exec_module(self, module: ModuleType) -> None:
        """It is complete when it is made."""

    def put_in(self) -> None:
        sys.meta_path.insert(0, self)

    def take_out(self) -> None:
        """And what it has loaded."""
        sys.meta_path.remove(self)
        for name in self._loaded:
            sys.modules.pop(name, None)
        self._loaded.clear()
