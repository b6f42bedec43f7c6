"""A few programs that were made up, and all that were once kept because they failed."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from tests.differential import comparing, generate, grammar

KEPT = sorted(generate.KEPT.glob("*.json"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.full)])
def test_programs_that_are_made_up_agree_in_all_ways(seed: int) -> None:
    found = generate.Search(end=math.inf)
    generate.search(seed=seed, count=4, found=found)
    assert found.compared >= 4


@pytest.mark.sample(4)
@pytest.mark.parametrize("path", KEPT, ids=[path.stem for path in KEPT])
def test_programs_that_once_failed(path: Path) -> None:
    generate.check_some(json.loads(path.read_text())["description"])


def test_what_differs_is_found_shrunk_and_kept(tmp_path: Path, monkeypatch) -> None:
    """The search itself: programs with a loop are made to fail."""

    def check(description: generate.Description) -> None:
        if "loop" in grammar.names_in(description["layers"]):
            raise comparing.Differs("a loop")

    monkeypatch.setattr(generate, "check_some", check)
    found = generate.Search(end=math.inf)
    with pytest.raises(comparing.Differs, match="a loop"):
        generate.search(seed=2, count=300, found=found)
    text, how = found.smallest()
    path = generate.keep(text, how, tmp_path)
    [layer] = json.loads(path.read_text())["description"]["layers"]
    assert layer[0] == "loop" and len(layer[1]) == 1
