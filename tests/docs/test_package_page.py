"""README.md as a package index shows it: no link leads nowhere."""

from __future__ import annotations

import re

import pytest

pytest.importorskip("hatchling")

from docs.tools.package_page import readme, urls
from tests.docs.pages import REPOSITORY

README = (REPOSITORY / "README.md").read_text()
HERE = "https://host.example/me/estimand"


def test_links_and_pictures_are_found_in_the_repository() -> None:
    made = readme("![a](docs/a.png) [b](docs/b.md#c) [d](https://keras.io)", HERE)
    assert made == (
        f"![a]({HERE}/raw/HEAD/docs/a.png) [b]({HERE}/blob/HEAD/docs/b.md#c) [d](https://keras.io)"
    )
    assert urls(HERE)["Changelog"] == f"{HERE}/blob/HEAD/CHANGELOG.md"


def test_without_an_address_links_are_text() -> None:
    made = readme(README, "")
    assert len(made) > 5000 and "TensorFlow removed" in made
    assert all(link.startswith("https://") for link in re.findall(r"\]\(([^)\s]+)\)", made))
    assert urls("") == {}
