"""Writes docs/notebooks: tutorials as notebooks, from the same pages that the site shows.

    python -m docs.tools.notebooks

A program of a page becomes a cell for each of its parts, which begin with a comment after an empty
line; what the page says it prints stands below. A test executes them, another says when they are
not current.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[1]
NOTEBOOKS = DOCS / "notebooks"
PAGES = ("tabular", "text", "keras_model")

_FENCE = re.compile(r"^```(python|output)\n(.*?)^```\n", flags=re.M | re.S)
_NOT_RUN = re.compile(r"^<!-- not run: .*? -->\n", flags=re.M)
_NEIGHBOUR = re.compile(r"\]\((?=[a-z_0-9]+\.md)")


def cells(page: str) -> list[dict[str, Any]]:
    """The cells of a page's notebook, in order."""
    made: list[dict[str, Any]] = []
    program: list[dict[str, Any]] = []
    place = 0
    for match in _FENCE.finditer(page):
        made += _prose(page[place : match.start()])
        place = match.end()
        if match[1] == "python":
            program = [_code(part) for part in parts(match[2])]
            made += program
        else:
            _show(program, match[2])
    made += _prose(page[place:])
    for number, cell in enumerate(made):
        cell["id"] = f"cell-{number}"
    return made


def parts(program: str) -> list[str]:
    """A program at its comments that begin a part.

    >>> parts("a = 1\\n\\n# Then.\\nb = a  # aside\\n")
    ['a = 1', '# Then.\\nb = a  # aside']
    """
    return [part.strip("\n") for part in re.split(r"\n\n(?=# )", program)]


def _prose(text: str) -> list[dict[str, Any]]:
    text = _NEIGHBOUR.sub("](../tutorials/", _NOT_RUN.sub("", text)).strip()
    return [{"cell_type": "markdown", "metadata": {}, "source": _lines(text)}] if text else []


def _code(text: str) -> dict[str, Any]:
    return {
        "cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [],
        "source": _lines(text),
    }  # fmt: skip


def _show(program: list[dict[str, Any]], printed: str) -> None:
    """The lines that were printed below the cells that print them: a line each."""
    rest = printed.splitlines(keepends=True)
    for cell in program:
        prints = sum(line.lstrip().startswith("print(") for line in cell["source"])
        shown, rest = (rest[:prints], rest[prints:]) if cell is not program[-1] else (rest, [])
        if shown:
            cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": shown}]


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def notebook(name: str) -> str:
    """The text of the notebook of a tutorial."""
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    content = {
        "cells": cells((DOCS / "tutorials" / f"{name}.md").read_text()),
        "metadata": {"kernelspec": kernel, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for name in PAGES:
        (NOTEBOOKS / f"{name}.ipynb").write_text(notebook(name))
