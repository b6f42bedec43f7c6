"""What fuzzing has collected, once more; and that a finding is noticed."""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving.fuzz.changing import changed, corpus_of
from tests.serving.fuzz.inside import Watch
from tests.serving.fuzz.targets import TARGETS
from tests.serving.fuzz.world import Finding, World


@pytest.fixture(scope="module")
def world(models: Path) -> Iterator[World]:
    made = World(models)
    yield made
    made.close()


@pytest.mark.parametrize("kind", TARGETS)
def test_inputs_of_the_corpus_do_no_harm(world: World, kind: str) -> None:
    target = TARGETS[kind](world)
    inputs = corpus_of(kind)
    assert inputs
    for body in inputs:
        target(body)
    random_ = random.Random(kind)
    for _ in range(200):
        if body := changed(inputs, random_):
            target(body)


def test_a_finding_is_kept_with_its_input(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    def target(data: bytes) -> None:
        if data[0] == 7:
            raise Finding("seven")

    watch = Watch("json", target, tmp_path / "figures.json", 1.0)
    for data in (b"\6", b"\7 is bad", b"\x08"):
        watch(data)
    watch.write()
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert (figures["inputs"], figures["findings"]) == (3, 1)
    assert [file.read_bytes() for file in tmp_path.glob("findings/json/*")] == [b"\7 is bad"]
    assert "Finding: seven" in capsys.readouterr().err


def test_the_log_of_the_server_is_looked_at(world: World) -> None:
    logging.getLogger("estimand.serving").error("a call failed")
    with pytest.raises(Finding, match="the log has: a call failed"):
        world.check_log()
