"""Every program in every page of docs/ runs by itself, and prints what the page says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests import forked
from tests.docs.pages import REPOSITORY, blocks, name_of, pages, programs
from tests.docs.run_page import matches

WITH_PROGRAMS = [page for page in pages() if programs(page)]


def test_there_are_pages_with_programs() -> None:
    names = {name_of(page) for page in WITH_PROGRAMS}
    assert {"inputs.md", "keras.md", "heads.md", "getting_started.md"} <= names


@pytest.mark.slow
@pytest.mark.sample(8)
@pytest.mark.parametrize("page", WITH_PROGRAMS, ids=name_of)
def test_programs_run(page: Path) -> None:
    done = forked.run(
        ["-m", "tests.docs.run_page", page],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-6000:]}"


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_output_belongs_to_a_program(page: Path) -> None:
    before = None
    for block in blocks(page):
        if block.kind == "output":
            assert before == "python", f"{name_of(page)}, line {block.line}"
        before = block.kind


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_what_is_not_run_needs_what_is_not_here(page: Path) -> None:
    for block in blocks(page):
        assert block.not_run is None or block.not_run.startswith("needs "), block


def test_a_program_that_fails_or_prints_something_else_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1)\n```\n\n```output\n2\n```\n\n```python\nx\n```\n")
    text = (
        "import tests.docs.pages as pages, tests.docs.run_page as run_page, pathlib, sys\n"
        "run_page.name_of = str\n"
        f"sys.exit(run_page.main(pathlib.Path({str(page)!r})))"
    )
    done = forked.run(["-c", text], env={**os.environ, "PYTHONPATH": str(REPOSITORY)})
    assert done.returncode == 2
    assert "line 2: the page says\n2\n\nand it printed\n1" in done.stdout
    assert f"{page}, line 10: ended with 1" in done.stdout
    assert "name 'x' is not defined" in done.stderr


def test_dots_stand_for_any_text() -> None:
    assert matches("{'loss': 0.1…}\n", "{'loss': 0.1234}\n")
    assert not matches("{'loss': 0.1…}\n", "{'loss': 0.2}\n")
