"""A program: a script, and the modules beside it that it imports."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from pathlib import Path

_MOST_FILES = 500


def program_files(path: str | os.PathLike[str]) -> dict[str, str]:
    """The sources of a program by file, the script first; what cannot be read is left out."""
    first = Path(path).resolve()
    seen: set[Path] = set()
    waiting, found = [first], {}
    while waiting and len(seen) < _MOST_FILES:
        file = waiting.pop()
        if file in seen or not file.is_file():
            continue
        seen.add(file)
        try:
            source = file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        found[str(file)] = source
        waiting += _modules_beside(source, first.parent, file.parent)
    return found


def _modules_beside(source: str, *folders: Path) -> Iterator[Path]:
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except SyntaxError:
        return
    for node in nodes:
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = [module, *(f"{module}.{a.name}".strip(".") for a in node.names)]
        for name in filter(None, names):
            for folder in folders:
                place = folder.joinpath(*name.split("."))
                yield place.with_suffix(".py")
                yield place / "__init__.py"
