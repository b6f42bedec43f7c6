"""What all commands share: how they are found, how they end, and the examples in their help.

How a command ends: 0, done; 1, it was tried and failed, or found what it looks for (damage,
differences); 2, the command line cannot be right: an option or a value that is not known, a name
under which nothing is; 130, Ctrl-C. Results go to standard output, everything else to standard
error.
"""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Iterator
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

import click

FAILED, WRONG_USAGE, INTERRUPTED = 1, 2, 130


class Entry(NamedTuple):
    """A command: "module:function", one line for the list, and lines that can be typed.

    Of a command that has commands itself, `examples` has those of each, by name.
    """

    home: str
    line: str
    examples: tuple[str, ...] | dict[str, tuple[str, ...]]


class Commands(click.Group):
    """Commands that are imported when they are used; `estimand --help` needs none of them."""

    def __init__(self, *args: Any, entries: dict[str, Entry], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.entries = entries

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(self.entries)

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.entries and not args[0].startswith("-"):
            from estimand.core.names import did_you_mean

            context.fail(f"No such command {args[0]!r}.{did_you_mean(args[0], self.entries)}")
        return super().resolve_command(context, args)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        entry = self.entries.get(name)
        if entry is None:
            return None
        module, _, function = entry.home.partition(":")
        command: click.Command = getattr(import_module(module), function)
        if isinstance(entry.examples, dict):
            assert isinstance(command, click.Group)
            for example_of, lines in entry.examples.items():
                command.commands[example_of].epilog = _epilog(lines)
            command.epilog = _epilog(tuple(lines[0] for lines in entry.examples.values()))
        else:
            command.epilog = _epilog(entry.examples)
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.entries[name].line) for name in sorted(self.entries)])

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            end_interrupted()
        except Exception as error:
            code = exit_code_of(error)
            if code is None:
                raise
            if context.params["verbose"]:
                click.echo(traceback.format_exc(), err=True)
            raise ExitWithMessage(str(error), code) from error


class ExitWithMessage(click.ClickException):
    """One sentence on standard error, and an exit code."""

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # type: ignore[misc]  # click reads it from the instance


def exit_code_of(error: Exception) -> int | None:
    """For what goes wrong on purpose, and is told in a sentence; None for everything else."""
    from estimand.core.errors import EstimandError, NoCheckpointError

    if not isinstance(error, EstimandError):
        return None
    is_not_there = isinstance(error, FileNotFoundError | NoCheckpointError)
    return WRONG_USAGE if is_not_there else FAILED


@contextlib.contextmanager
def os_errors_in_a_sentence() -> Iterator[None]:
    """Where all files are those that were named: what is wrong with them needs no traceback."""
    try:
        yield
    except OSError as error:
        if exit_code_of(error) is not None:
            raise
        is_not_there = isinstance(error, FileNotFoundError)
        raise ExitWithMessage(str(error), WRONG_USAGE if is_not_there else FAILED) from error


def end_interrupted() -> NoReturn:
    if sys.stderr is not None and sys.stderr.isatty():
        click.echo(err=True)  # after the terminal's ^C
    raise click.exceptions.Exit(INTERRUPTED)


def _epilog(lines: tuple[str, ...]) -> str:
    return "\b\n" + "\n".join(["Examples:", *(f"  {line}" for line in lines)])
