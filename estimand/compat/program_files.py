"""A program: a script, and the modules beside it that it imports."""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import os
import sys
from collections.abc import Iterator
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from estimand.compat import detection
from estimand.core.errors import InputError

_MOST_FILES = 500


def program_files(
    path: str | os.PathLike[str], directory: str | os.PathLike[str] | None = None
) -> dict[str, str]:
    """The sources of a program by file, the script first; what cannot be read is left out.

    Args:
        path: the script.
        directory: where it finds its modules, if not beside itself.
    """
    first = Path(path).resolve()
    seen: set[Path] = set()
    waiting, read = [first], {}
    while waiting and len(seen) < _MOST_FILES:
        file = waiting.pop()
        if file in seen or not file.is_file():
            continue
        seen.add(file)
        try:
            source = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        read[str(file)] = source
        waiting += _modules_beside(source, Path(directory or first.parent), file)
    return read


def package_of(file: Path) -> Path | None:
    """The folder of the whole package that a file belongs to."""
    around = [folder for folder in file.parents if (folder / "__init__.py").is_file()]
    return around[-1] if around else None


def package_folder(name: str) -> Path | None:
    """Where the package lies that `import name` would find."""
    spec = _found(name)
    return (
        Path(spec.origin).parent
        if spec and spec.submodule_search_locations and spec.origin
        else None
    )


def _modules_beside(source: str, directory: Path, file: Path) -> Iterator[Path]:
    """What a file imports of the program, and of its own package, wherever that is installed."""
    try:
        nodes = list(detection.walk_what_is_not_tried(ast.parse(source)))
    except SyntaxError:
        return
    package = package_of(file)
    for node in nodes:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = [module, *(f"{module}.{a.name}".strip(".") for a in node.names)]
        for name in filter(None, names):
            folders = [directory, file.parent]
            if package is not None and name.partition(".")[0] == package.name:
                folders.append(package.parent)
            for folder in folders:
                place = folder.joinpath(*name.split("."))
                yield place.with_suffix(".py")
                yield place / "__init__.py"


def module_file(name: str) -> str:
    """The file that `python -m name` would run."""
    with searched(os.getcwd()):
        spec = _found(name)
        if spec is not None and spec.submodule_search_locations is not None:
            spec = _found(f"{name}.__main__")
    if spec is None or spec.origin is None or not os.path.isfile(spec.origin):
        raise InputError(
            f"There is no module {name!r} that could be run, seen from {os.getcwd()}. Go to the "
            "directory above its package, or give the path of a file: estimand run train.py."
        )
    return os.path.abspath(spec.origin)


def _found(name: str) -> ModuleSpec | None:
    """Without importing the packages it is in: they may need a TensorFlow that is not yet there."""
    first, *others = name.split(".")
    try:
        spec = importlib.util.find_spec(first)
    except (ImportError, ValueError):
        return None
    for part in others:
        if spec is None:
            return None
        spec = PathFinder.find_spec(f"{spec.name}.{part}", spec.submodule_search_locations or [])
    return spec


@contextlib.contextmanager
def searched(directory: str) -> Iterator[None]:
    """Modules are looked for there first."""
    search = list(sys.path)
    sys.path.insert(0, directory)
    try:
        yield
    finally:
        sys.path[:] = search
