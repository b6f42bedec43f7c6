"""The texts in the source of the package, as messages are made of them."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.pages import REPOSITORY

ANY = "…"
_FEWEST_LETTERS = 15  # of less than that, something is always there


def plain(text: str) -> str:
    """With single spaces, and one … where something is filled in."""
    text = re.sub(r"%[sdr]|\{\d*\}", ANY, " ".join(text.split()))
    return re.sub(r"(…\s*)+…", ANY, text)


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ANY
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return _text(node.left) + _text(node.right)
    return ANY


def _texts(file: Path) -> Iterator[str]:
    tree = ast.parse(file.read_text())
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) in docstrings:
            continue
        if isinstance(node, ast.Constant | ast.JoinedStr | ast.BinOp):
            text = plain(_text(node))
            if text not in ("", ANY):
                yield text


@functools.cache
def texts() -> frozenset[str]:
    """All of them, f-strings with … in the place of what is filled in."""
    return frozenset(
        text for file in (REPOSITORY / "estimand").rglob("*.py") for text in _texts(file)
    )


def is_in_the_source(message: str) -> bool:
    """Whether a message, or a part of one, with … for what is filled in, is in the source."""
    parts = [part.strip() for part in plain(message).split(ANY) if part.strip()]
    if len("".join(parts)) < _FEWEST_LETTERS:
        return False
    pattern = re.compile(".*?".join(re.escape(part) for part in parts))
    return any(pattern.search(text) for text in texts())
