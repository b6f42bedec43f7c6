"""docs/api has every public name, with its arguments and an example."""

from __future__ import annotations

import inspect
import re
from types import ModuleType
from typing import Any

import pytest

import estimand as est
from docs.tools import api_pages

ENTRIES = {path: value for group in api_pages.GROUPS for path, value in api_pages.entries(group)}
OURS = {
    path: value
    for path, value in ENTRIES.items()
    if path.rpartition(".")[2] not in api_pages.TENSORFLOW and not isinstance(value, ModuleType)
}
PUBLIC = [path for path in OURS if "." not in path]
# Said once for several: "The arguments are those of `stop_if_higher_hook`."
REFERS = re.compile(r"arguments\s+(are\s+those|as)\s+of")


def documentation(value: Any) -> str:
    """Its own docstring, and that of its constructor; not those of its parents."""
    own = value.__doc__ or ""
    constructor = value.__dict__.get("__init__") if inspect.isclass(value) else None
    return own + (getattr(constructor, "__doc__", None) or "")


def test_pages_are_current() -> None:
    for name, text in api_pages.pages().items():
        said = "docs/api is not current; run: make docs-write"
        assert (api_pages.API / name).read_text() == text, said
    assert {one.name for one in api_pages.API.glob("*.md")} == set(api_pages.pages())


def test_no_public_name_is_missing() -> None:
    listed = [f"{names} {modules}" for _, names, modules in api_pages.GROUPS.values()]
    assert sorted(" ".join(listed).split()) == est.__all__


@pytest.mark.parametrize("path", PUBLIC)
def test_public_name_has_an_example(path: str) -> None:
    assert ">>> " in documentation(OURS[path])


def parameters(value: Any) -> list[str]:
    found = inspect.signature(value).parameters.values()
    return [one.name for one in found if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]


@pytest.mark.parametrize("path", PUBLIC)
def test_public_name_has_its_arguments(path: str) -> None:
    said = documentation(OURS[path])
    if path == "RunConfig":
        said += inspect.getsource(OURS[path])  # described where they are declared
    missing = [
        name
        for name in parameters(OURS[path])
        if re.search(rf"\b{re.escape(name)}\b", said) is None
    ]
    assert not missing or REFERS.search(said)


@pytest.mark.parametrize("path", PUBLIC)
def test_list_of_arguments_is_complete(path: str) -> None:
    _, there_is_one, below = documentation(OURS[path]).partition("Args:\n")
    listed = below.partition("\n\n")[0]
    missing = [
        name
        for name in parameters(OURS[path])
        if re.search(rf"^ +[\w*, ]*\b{re.escape(name)}\b[\w, ]*:", listed, re.M) is None
    ]
    assert not (there_is_one and missing)


@pytest.mark.parametrize("path", OURS)
def test_member_of_a_public_module_says_what_it_is(path: str) -> None:
    assert (OURS[path].__doc__ or "").strip()
