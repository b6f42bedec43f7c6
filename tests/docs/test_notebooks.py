"""The notebooks are what `make docs-write` makes of the tutorials, and run."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.tools import notebooks
from tests.docs.pages import REPOSITORY
from tests.docs.run_page import matches

nbclient = pytest.importorskip("nbclient")
nbformat = pytest.importorskip("nbformat")


@pytest.mark.parametrize("name", notebooks.PAGES)
def test_notebook_is_current(name: str) -> None:
    written = (notebooks.NOTEBOOKS / f"{name}.ipynb").read_text()
    assert written == notebooks.notebook(name), "It is not current; run: make docs-write"
    nbformat.validate(nbformat.reads(written, as_version=4))


def test_there_are_no_others() -> None:
    assert {one.stem for one in notebooks.NOTEBOOKS.glob("*.ipynb")} == set(notebooks.PAGES)


def test_cells_hold_the_whole_page() -> None:
    page = "# Title\n\n```python\na = 1\n\n# Tell.\nprint(a)\n```\n\n```output\n1\n```\n\nEnd.\n"
    title, first, second, end = notebooks.cells(page)
    assert (title["source"], end["source"]) == (["# Title"], ["End."])
    assert first["source"] == ["a = 1"] and first["outputs"] == []
    assert second["outputs"][0]["text"] == ["1\n"]


@pytest.mark.slow
@pytest.mark.full  # of the pages that they are made of, make test runs some
@pytest.mark.parametrize("name", notebooks.PAGES)
def test_notebook_prints_what_it_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    shown = nbformat.reads(notebooks.notebook(name), as_version=4)
    run = nbformat.reads(notebooks.notebook(name), as_version=4)
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(run, timeout=240, resources=resources).execute()
    for expected, cell in zip(shown.cells, run.cells, strict=True):
        if cell.cell_type == "code":
            # In a notebook the lines of a training go to the same place, before it.
            assert matches("…" + _printed(expected), _printed(cell)), cell.source


def _printed(cell: object) -> str:
    outputs = cell.outputs  # type: ignore[attr-defined]
    return "".join(one.text for one in outputs if one.get("name") == "stdout")
