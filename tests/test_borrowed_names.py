"""Names inside of other libraries that this package uses, though nobody promised them.

A new release may move one. Then this test says which, and where it is used, instead of some run
that stumbles over it one day; the bounds of versions are in pyproject.toml.
"""

from __future__ import annotations

import ast
import functools
import importlib
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

PACKAGE = Path(__file__).parent.parent / "estimand"
# What is imported from these is not part of their public interface, or is extended here.
INSIDES = {
    "tensorflow": "tensorflow.python",
    "keras": "keras.src",
    "tf_keras": "tf_keras.src",
    "tensorboard": "tensorboard.compat.proto",
    "hpack": "hpack",
    "httptools": "httptools",
}
# Comes with TensorFlow, which says which one.
WITHOUT_BOUND = {"protobuf": "google.protobuf.internal"}


@functools.cache
def imports() -> list[tuple[str, str, str]]:
    """(module, name, where it is imported), also where that is inside of a function."""
    rows: list[tuple[str, str, str]] = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            where = f"{path.relative_to(PACKAGE.parent)}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                rows += [(node.module, alias.name, where) for alias in node.names]
            elif isinstance(node, ast.Import):
                rows += [(alias.name, "", where) for alias in node.names]
    return rows


def borrowed(inside: str) -> list[tuple[str, str, str]]:
    return [row for row in imports() if f"{row[0]}.".startswith(f"{inside}.")]


def is_there(module: str, name: str) -> bool:
    try:
        loaded = importlib.import_module(module)
        if name and not hasattr(loaded, name):
            importlib.import_module(f"{module}.{name}")
    except ImportError:
        return False
    return True


@pytest.mark.parametrize("library", [*INSIDES, *WITHOUT_BOUND])
def test_names_inside_of_other_libraries_are_where_they_were(library: str) -> None:
    used = borrowed((INSIDES | WITHOUT_BOUND)[library])
    assert used, f"nothing inside of {library} is used any more: take it off the list"
    pytest.importorskip(used[0][0].partition(".")[0])
    gone = [
        f"{module}.{name} ({where})" for module, name, where in used if not is_there(module, name)
    ]
    version = metadata.version(library)
    assert not gone, f"{library} {version} no longer has: " + ", ".join(gone)


@pytest.mark.parametrize("library", INSIDES)
def test_the_next_series_is_not_installed_unseen(library: str) -> None:
    project = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    wanted = {
        requirement.name: requirement
        for text in [*project["dependencies"], *(text for extra in extras for text in extra)]
        for requirement in [Requirement(text)]
    }
    bounds = {specifier.operator for specifier in wanted[library].specifier}
    assert {"<", "==", "~="} & bounds, f"{wanted[library]} has no upper bound"
