"""What pages name in sentences is there: names, arguments, options, variables, files."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import estimand as est
from estimand.cli.main import main
from tests.docs.pages import REPOSITORY, name_of, pages

INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
PLACEHOLDERS = {"X"}  # `est.export.X`: any name
# Of every command, of examples/demo.py, of TensorBoard.
OTHER_OPTIONS = {"--help", "--keep_serving", "--logdir"}


def sentences(page: Path) -> str:
    """A page without its blocks of code, and without links' targets."""
    text = re.sub(r"^(`{3,})[^\n]*\n.*?^\1 *$", "", page.read_text(), flags=re.M | re.S)
    return re.sub(r"\]\([^)]*\)", "]", text)


def named(page: Path) -> list[str]:
    return INLINE.findall(sentences(page))


def resolve(path: str) -> Any:
    value: Any = est
    for part in path.split(".")[1:]:
        if part in PLACEHOLDERS:
            return None
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_public_names_are_there(page: Path) -> None:
    missing = []
    for code in named(page):
        for path in re.findall(r"(?<![\w./])est(?:\.[A-Za-z_]\w*)+", code):
            try:
                resolve(path)
            except AttributeError:
                missing.append(path)
    assert not missing


def calls(code: str) -> Iterator[tuple[Any, list[str]]]:
    """Public functions and classes that are called in a piece of code, with the names given."""
    try:
        tree = ast.parse(code.replace("...", "None").replace("…", "None"), mode="eval")
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            path = ast.unparse(node.func).removeprefix("est.")
            if path in est.__all__ and callable(getattr(est, path)):
                yield getattr(est, path), [one.arg for one in node.keywords if one.arg]


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_arguments_are_there(page: Path) -> None:
    for code in named(page):
        for value, given in calls(code):
            parameters = inspect.signature(value).parameters
            known = any(one.kind is one.VAR_KEYWORD for one in parameters.values())
            assert known or set(given) <= set(parameters), code


@functools.cache
def options() -> frozenset[str]:
    """All options of all commands."""
    found: set[str] = set()

    def collect(command: click.Command) -> None:
        for parameter in command.params:
            found.update([*parameter.opts, *parameter.secondary_opts])
        if isinstance(command, click.Group):
            for name in command.list_commands(click.Context(command)):
                collect(command.get_command(click.Context(command), name))

    collect(main)
    return frozenset(found)


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_options_are_there(page: Path) -> None:
    for code in named(page):
        if code.startswith("--"):
            option = re.split(r"[= ]", code)[0]
            assert option in options() | OTHER_OPTIONS, code


@functools.cache
def source() -> str:
    return "\n".join(file.read_text() for file in (REPOSITORY / "estimand").rglob("*.py"))


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_environment_variables_are_read(page: Path) -> None:
    for code in named(page):
        for variable in re.findall(r"\bESTIMAND_[A-Z_]+\b", code):
            assert variable in source(), variable
