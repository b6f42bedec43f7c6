"""docs/tools: what they make of docstrings, and what they find wrong with a site."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from docs.tools.check_site import faults
from docs.tools.docstrings import described, fenced
from tests.docs.pages import REPOSITORY


def test_examples_become_blocks_and_the_rest_stays() -> None:
    text = "Adds.\n\nArgs:\n  x: a number.\n\n>>> 1 + 1\n2\n\nThat is all."
    made = fenced(text)
    assert "```pycon\n>>> 1 + 1\n2\n```\n\nThat is all." in made
    assert made.startswith("Adds.\n\nArgs:\n  x: a number.\n\n```pycon")


def test_settings_are_described_by_their_text() -> None:
    assert described('_setting("Directory of checkpoints.")') == "Directory of checkpoints."
    assert described("_setting()") is None
    assert described('_flag(8500, "TCP port of gRPC; 0 for none.")') == (
        "TCP port of gRPC; 0 for none."
    )
    assert described("make(1)") is None


def site(directory: Path, **pages: str) -> Path:
    for name, body in pages.items():
        (directory / f"{name}.html").write_text(f"<html><body>{body}</body></html>")
    return directory


def test_sound_site_has_no_faults(tmp_path: Path) -> None:
    made = site(
        tmp_path,
        index='<a href="more.html#end">more</a> <a href="https://example.com">other</a>',
        more='<p id="end"></p><a href="#end">end</a>',
    )
    assert faults(made) == []


def test_what_is_fetched_from_elsewhere_is_a_fault(tmp_path: Path) -> None:
    made = site(tmp_path, index='<script src="https://cdn.example/x.js"></script>')
    assert faults(made) == ["index.html fetches https://cdn.example/x.js"]


def test_a_block_for_which_the_theme_fetches_a_program_is_a_fault(tmp_path: Path) -> None:
    made = site(tmp_path, index='<pre class="mermaid"><code>graph TD</code></pre>')
    assert faults(made) == ["index.html fetches https://unpkg.com/mermaid"]


def test_links_to_nothing_are_faults(tmp_path: Path) -> None:
    made = site(tmp_path, index='<a href="gone.html">x</a><a href="#gone">y</a>')
    assert faults(made) == ["index.html links to gone.html", "index.html links to #gone"]


def test_site_without_pages_is_a_fault(tmp_path: Path) -> None:
    assert faults(tmp_path) == [f"There are no pages in {tmp_path}."]


def test_docs_need_neither_the_package_nor_tensorflow() -> None:
    program = REPOSITORY / "docs" / "tools" / "requirements.py"
    done = subprocess.run(
        [sys.executable, program, "docs"], capture_output=True, text=True, check=True
    )
    names = [line.partition("=")[0] for line in done.stdout.split()]
    assert names == ["mkdocs-material", "mkdocstrings[python]"]
