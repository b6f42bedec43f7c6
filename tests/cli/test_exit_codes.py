"""One rule for all commands: 2 for wrong usage, 1 for what failed, 130 for Ctrl-C."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from estimand.cli import group
from estimand.cli.main import ENTRIES, main
from estimand.core.errors import InputError, NoCheckpointError, NoModelError

NOWHERE = "/nowhere/at/all"


def commands() -> Iterator[tuple[str, click.Command]]:
    """All that can be typed: "show", "checkpoint show", ..."""
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            for below in command.list_commands(context):
                yield f"{name} {below}", command.commands[below]
        else:
            yield name, command


COMMANDS = dict(commands())
# With names under which nothing is.
MISSING = {
    "board": [NOWHERE],
    "checkpoint convert": [NOWHERE, "target"],
    "checkpoint diff": [NOWHERE, NOWHERE],
    "checkpoint show": [NOWHERE],
    "convert": [NOWHERE, "--to", "tflite", "--out", "x"],
    "eval": [f"{NOWHERE}.py"],
    "explain": [NOWHERE, f"{NOWHERE}.csv"],
    "label": ["--model", NOWHERE, "x.png"],
    "launch": [f"{NOWHERE}.py"],
    "migrate check": [NOWHERE],
    "migrate fix": [NOWHERE],
    "predict": [NOWHERE, "--input", f"{NOWHERE}.csv"],
    "query": ["localhost:1", "m", "--input", f"{NOWHERE}.csv"],
    "records make": [f"{NOWHERE}.csv", "x"],
    "records schema": [NOWHERE],
    "records show": [NOWHERE],
    "records verify": [NOWHERE],
    "report": [NOWHERE],
    "retrain": ["--images", NOWHERE, "--base", "x", "--out", "y"],
    "run": [f"{NOWHERE}.py"],
    "serve": [NOWHERE],
    "show": [NOWHERE],
    "sweep": [f"{NOWHERE}.py", "--param", "x=1"],
    "train": [f"{NOWHERE}.py"],
}
NAME_NOTHING = {
    "data-service dispatcher",
    "data-service local",
    "data-service worker",
    "doctor",
    "new",
}


def run(*arguments: str) -> Any:
    return CliRunner().invoke(main, [*arguments])


def test_every_command_is_looked_at() -> None:
    assert set(COMMANDS) == MISSING.keys() | NAME_NOTHING


@pytest.mark.parametrize("name", sorted(set(COMMANDS) - {"run", "launch"}))
def test_unknown_option_is_wrong_usage(name: str) -> None:
    result = run(*name.split(), "--no-such-option")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "No such option" in result.stderr


@pytest.mark.parametrize("name", sorted(MISSING))
def test_name_under_which_nothing_is_is_wrong_usage(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run(*name.split(), *MISSING[name])
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.count("Error: ") == 1
    assert NOWHERE in result.stderr


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A command that raises what it is told to."""
    raised: list[BaseException] = []

    @click.command()
    def fail() -> None:
        raise raised[0]

    monkeypatch.setattr(group, "import_module", lambda name: click)
    monkeypatch.setattr(click, "fail_for_test", fail, raising=False)
    monkeypatch.setitem(ENTRIES, "fail", group.Entry("click:fail_for_test", "-", ()))
    return raised


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InputError("row 3 is no number"), 1),
        (NoModelError("no model in x"), 2),
        (NoCheckpointError("no checkpoint in x"), 2),
    ],
)
def test_error_on_purpose_is_one_sentence(failing: Any, error: Exception, code: int) -> None:
    failing.append(error)
    result = run("fail")
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr == f"Error: {error}\n"
    loud = run("--verbose", "fail")
    assert loud.exit_code == code and "Traceback" in loud.stderr


def test_unexpected_error_keeps_its_traceback(failing: Any) -> None:
    failing.append(RuntimeError("a bug"))
    result = run("fail")
    assert result.exit_code == 1 and result.exception is failing[0]


def test_ctrl_c_ends_with_130_and_says_nothing(failing: Any) -> None:
    failing.append(KeyboardInterrupt())
    result = run("fail")
    assert (result.exit_code, result.output) == (130, "")


def test_error_of_a_named_file_is_a_sentence() -> None:
    for error, code in (
        (FileNotFoundError(2, "gone", "x"), 2),
        (PermissionError(13, "no", "x"), 1),
    ):
        with pytest.raises(group.ExitWithMessage) as told, group.os_errors_in_a_sentence():
            raise error
        assert told.value.exit_code == code


# ------------------------------------------------------------------ help


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_help_has_examples_with_options_that_there_are(name: str) -> None:
    text = run(*name.split(), "--help").stdout
    examples = re.findall(rf"^ +(estimand {name}.*)$", text.partition("Examples:")[2], re.M)
    assert examples
    known = {option for one in COMMANDS[name].params for option in (*one.opts, *one.secondary_opts)}
    for example in examples:
        assert len(example) <= 90
        words = shlex.split(example.partition(" -- ")[0])
        if name not in ("run", "launch"):  # their programs have options of their own
            used = {word.partition("=")[0] for word in words if word.startswith("--")}
            assert used <= known, example


def test_no_line_of_the_list_is_cut() -> None:
    text = CliRunner().invoke(main, ["--help"], terminal_width=80).stdout
    for name, entry in ENTRIES.items():
        assert re.search(rf"^  {name} +{re.escape(entry.line)}$", text, re.M), name
    assert "..." not in text.partition("Commands:")[2]


@pytest.mark.parametrize("name", ["checkpoint", "records", "migrate", "data-service"])
def test_no_line_of_a_groups_list_is_cut(name: str) -> None:
    text = CliRunner().invoke(main, [name, "--help"], terminal_width=80).stdout
    assert "..." not in text.partition("Commands:")[2]
