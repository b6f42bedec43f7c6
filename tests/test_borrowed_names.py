"""Names inside of other libraries that this package uses, though nobody promised them.

A new release may move one. Then this test says which, and where it is used, instead of some run
that stumbles over it one day; the bounds of versions are in pyproject.toml.
"""

from __future__ import annotations

import ast
import functools
import importlib
from importlib import metadata
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "estimand"
# What is imported from these is not part of their public interface, or is extended here.
INSIDES = {
    "tensorflow": "tensorflow.python",
    "keras": "keras.src",
    "tf_keras": "tf_keras.src",
    "uvicorn": "uvicorn",
    "hpack": "hpack",
}


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


@pytest.mark.parametrize("library", INSIDES)
def test_names_inside_of_other_libraries_are_where_they_were(library: str) -> None:
    pytest.importorskip(library)
    used = borrowed(INSIDES[library])
    gone = [
        f"{module}.{name} ({where})" for module, name, where in used if not is_there(module, name)
    ]
    version = metadata.version(library)
    assert not gone, f"{library} {version} no longer has: " + ", ".join(gone)


def test_there_is_something_to_look_for() -> None:
    assert len(borrowed("tensorflow.python")) > 20
    assert [*borrowed("keras.src"), *borrowed("uvicorn"), *borrowed("hpack")]
