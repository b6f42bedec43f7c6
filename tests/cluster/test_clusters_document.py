"""The commands in docs/clusters.md are taken by the command line as they are printed there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from estimand.cli.main import main

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "clusters.md"
COMMANDS = re.findall(r"(?:^|`)(estimand [^`\n]+)", DOCUMENT.read_text(), flags=re.M)


def test_there_are_commands() -> None:
    assert len(COMMANDS) >= 6


@pytest.mark.parametrize("line", COMMANDS)
def test_command_is_understood(line: str) -> None:
    _, *words = shlex.split(line.partition("|")[0])
    command: click.Command = main
    while isinstance(command, click.Group):
        name, *words = words
        found = command.get_command(click.Context(command), name)
        assert found is not None
        command = found
    if words == ["--v1"]:  # named in a sentence, without its script
        words.append(__file__)
    with command.make_context(command.name, words, resilient_parsing=False) as context:
        assert context.params


def test_messages_are_those_of_the_code() -> None:
    text = DOCUMENT.read_text()
    source = (DOCUMENT.parents[1] / "estimand" / "cluster" / "waiting.py").read_text()
    assert "did not answer within" in text and "did not answer within" in source
    assert "ESTIMAND_CLUSTER_TIMEOUT_SECS" in text and "ESTIMAND_CLUSTER_TIMEOUT_SECS" in source
