"""The pages with programs that need packages of `make extras`."""

from __future__ import annotations

import os

import pytest

from tests import forked
from tests.docs.pages import DOCS, REPOSITORY, blocks


@pytest.mark.extras
@pytest.mark.parametrize(
    "name", ["how_to/batch_prediction.md", "how_to/trackers.md", "how_to/tuning.md"]
)
def test_programs_run(name: str) -> None:
    needed = [block.not_run for block in blocks(DOCS / name) if block.not_run]
    assert needed
    for reason in needed:
        pytest.importorskip(reason.removeprefix("needs "))
    done = forked.run(
        ["-m", "tests.docs.run_page", DOCS / name],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-6000:]}"
