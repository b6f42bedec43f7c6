"""The commands of docs/getting_started.md, one after the other, as a newcomer types them."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest

from tests import forked
from tests.docs.pages import DOCS, REPOSITORY, blocks

# What sets up an environment, which the tests have.
NOT_TYPED = ("pip ", "python -m venv", ". .venv")


def commands() -> list[list[str]]:
    lines = [
        part.strip()
        for block in blocks(DOCS / "getting_started.md")
        if block.kind == "" and block.not_run is None
        for line in block.text.splitlines()
        for part in line.split("&&")
    ]
    return [shlex.split(line) for line in lines if not line.startswith(NOT_TYPED)]


def test_it_has_the_commands_of_a_first_try() -> None:
    typed = [" ".join(words[:2]) for words in commands()]
    assert typed[:5] == [
        "estimand doctor",
        "estimand new",
        "cd demo",
        "python make_data.py",
        "estimand train",
    ]


@pytest.mark.slow
@pytest.mark.full
def test_each_command_works_after_the_one_before(tmp_path: Path) -> None:
    directory, outputs = tmp_path, {}
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    for first, *rest in commands():
        if first == "cd":
            directory = directory / rest[0]
            continue
        command = ["-m", "estimand", *rest] if first == "estimand" else rest
        done = forked.run(command, cwd=directory, env=environment)
        assert done.returncode == 0, f"{first} {rest}: {done.stdout}\n{done.stderr}"
        outputs[rest[0]] = done.stdout
    assert "months" in outputs["show"]
    assert outputs["predict"].count("\n") == 1000
    assert (tmp_path / "demo" / "runs" / "small" / "checkpoint").exists()
