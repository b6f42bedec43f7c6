"""ARCHITECTURE.md, CONTRIBUTING.md and internals.md speak of files and classes that are there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[1]
ARCHITECTURE = (REPOSITORY / "ARCHITECTURE.md").read_text()
DOCUMENTS = {
    "ARCHITECTURE.md": ARCHITECTURE,
    "CONTRIBUTING.md": (REPOSITORY / "CONTRIBUTING.md").read_text(),
    "docs/internals.md": (REPOSITORY / "docs" / "internals.md").read_text(),
}
FOLDERS = ("estimand", "tests", "docs", "examples", "bench")
WRITTEN_BY_PROGRAMS = {"model_dir/eval[_name]/"}


def words(text: str) -> set[str]:
    """What stands in backticks, outside of blocks of code."""
    outside = re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)
    return set(re.findall(r"`([^`\s]+)`", outside))


def places() -> set[str]:
    """Each file and folder, with a slash before it and, if it is a folder, one behind it."""
    found = set()
    for folder in FOLDERS:
        for path in (REPOSITORY / folder).rglob("*"):
            if "__pycache__" not in path.parts:
                end = "/" if path.is_dir() else ""
                found.add(f"/{path.relative_to(REPOSITORY)}{end}")
    return found


@pytest.mark.parametrize("document", DOCUMENTS)
def test_files_and_folders_are_there(document: str) -> None:
    named = {word for word in words(DOCUMENTS[document]) if "/" in word or word.endswith(".py")}
    links = set(re.findall(r"\]\((?!https?:)([^)#]+)", DOCUMENTS[document]))
    there = places()

    def exists(name: str) -> bool:
        """A path may begin at any folder, and need not tell what kind of file it is."""
        tails = (f"/{name}", f"/{name}/", f"/{name}.py")
        beside = (REPOSITORY / document).parent / name
        return beside.exists() or any(place.endswith(tails) for place in there)

    assert sorted(name for name in (named - WRITTEN_BY_PROGRAMS) | links if not exists(name)) == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_classes_are_there(document: str) -> None:
    named = {word.partition(".")[0] for word in words(DOCUMENTS[document])}
    classes = {name for name in named if re.fullmatch(r"_?([A-Z][a-z0-9]+)+", name)}
    source = "\n".join(path.read_text() for path in (REPOSITORY / "estimand").rglob("*.py"))
    defined = set(re.findall(r"^ *class (\w+)", source, flags=re.M))
    assert sorted(classes - defined) == []


def test_drawing_has_each_folder_of_the_package_and_no_other() -> None:
    drawing = ARCHITECTURE.partition("## The layers")[2].split("```")[1]
    folders = {path.parent.name for path in (REPOSITORY / "estimand").glob("*/__init__.py")}
    assert folders - set(re.findall(r"\b[a-z]+\b", drawing)) == set()
    layers = set(re.findall(r"^ {3}([a-z]+) ", drawing, flags=re.M))
    assert len(layers) > 8 and layers - folders == set()


def test_layers_of_the_engine_are_those_of_the_contract() -> None:
    contracts = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = [c for c in contracts["contracts"] if c.get("containers") == ["estimand.engine"]]
    drawing = ARCHITECTURE.partition("The engine has layers")[2].split("```")[1]
    drawn = [re.findall(r"^ {3}([a-z_]+(?:, [a-z_]+)*)", line) for line in drawing.splitlines()]
    told = [name for names in drawn if names for name in names[0].split(", ")]
    kept = [name for layer in contract["layers"] for name in layer.split(" | ")]
    assert sorted(told) == sorted(kept)
    assert [name for name in told if name in kept[:9]] == kept[:9]  # from the top down
