"""docs/drawings is what `make docs-write` draws, and shows the layers that there are."""

from __future__ import annotations

import tomllib
import xml.etree.ElementTree as ET

from docs.tools import drawings
from tests.docs.pages import REPOSITORY


def test_drawings_are_current() -> None:
    for name, text in drawings.drawings().items():
        said = "It is not current; run: make docs-write"
        assert (drawings.DRAWINGS / name).read_text() == text, said
        ET.fromstring(text)  # well-formed


def test_layers_are_those_of_the_contract() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    contract = project["tool"]["importlinter"]["contracts"][0]
    layers = {name for line in contract["layers"] for name in line.split(" | ")}
    shown = {word.text for word in ET.fromstring(drawings.layers().text()).iter() if word.text}
    assert layers and layers <= shown
