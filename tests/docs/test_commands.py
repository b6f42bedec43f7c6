"""Every `estimand …` in every page is taken by the command line as it is printed there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from estimand.cli.main import main
from tests.docs.pages import REPOSITORY, blocks, name_of, pages

COMMAND = re.compile(r"(?:^|\$ |&& |; |\()(estimand [^|;&)#\n]+)", flags=re.M)
INLINE = re.compile(r"(?<!`)`(estimand [^`\n]+)`(?!`)")
LANGUAGES = ("", "bash", "sh", "console", "docker")
WITH_COMMANDS = [*pages(), REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"]


def in_blocks(page: Path) -> list[str]:
    """Commands that can be pasted: those in blocks, without comments, their lines joined."""
    found = []
    for block in blocks(page):
        if block.kind in LANGUAGES:
            text = re.sub(r"\s*\\\n\s*", " ", block.text)
            text = re.sub(r"\[(--[^\]|]*)[^\]]*\]", r"\1", text)  # of alternatives the first
            found += [match.strip() for match in COMMAND.findall(text)]
    return found


def in_sentences(page: Path) -> list[str]:
    """Commands that are named, perhaps without what they need: `estimand run --v1`."""
    text = re.sub(r"^(`{3,})[^\n]*\n.*?^\1 *$", "", page.read_text(), flags=re.M | re.S)
    return [match.partition("|")[0].strip() for match in INLINE.findall(text)]


def understood(line: str, *, whole: bool) -> None:
    """Raises what the command line would say of a command that it does not take."""
    _, *words = shlex.split(line.replace("…", "").rstrip(" ."))
    command: click.Command = main
    context = click.Context(main, info_name="estimand")
    while isinstance(command, click.Group):
        words = command.make_parser(context).parse_args(words)[1] or []
        if not words:
            return
        name, *words = words
        inner = command.get_command(context, name)
        assert inner is not None, f"there is no command {name!r}: {line}"
        command = inner
        context = click.Context(inner, context, name, **inner.context_settings)
    _, rest, _ = command.make_parser(context).parse_args(list(words))
    assert not rest or command.allow_extra_args, f"too much: {rest} of {line}"
    if whole:
        try:
            command.make_context(command.name, list(words)).close()
        except click.BadParameter as error:  # what it names is not on this machine
            assert not isinstance(error, click.MissingParameter), (
                f"{line}: {error.format_message()}"
            )
            assert re.search("exist|no such|not found|nothing", error.format_message(), re.I), line


def test_there_are_commands() -> None:
    assert sum(len(in_blocks(page)) for page in WITH_COMMANDS) > 50
    assert sum(len(in_sentences(page)) for page in WITH_COMMANDS) > 20


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_commands_in_blocks_are_understood(page: Path) -> None:
    for line in in_blocks(page):
        understood(line, whole=True)


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_commands_in_sentences_are_understood(page: Path) -> None:
    for line in in_sentences(page):
        understood(line, whole=False)


def test_commands_beside_the_documents_are_understood() -> None:
    for page in (REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md"):
        for line in in_blocks(page):
            understood(line, whole=True)


@pytest.mark.parametrize(
    "line",
    ["estimand trian program.py", "estimand train --no-such-option program.py", "estimand train"],
)
def test_a_mistake_is_noticed(line: str) -> None:
    with pytest.raises((click.UsageError, AssertionError)):
        understood(line, whole=True)
