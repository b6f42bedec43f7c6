"""`estimand board`: trainings in TensorBoard."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shlex
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import click

from estimand.cli import settings
from estimand.cli.group import FAILED
from estimand.cli.programs import Program, ProgramParts, told_from_its_side
from estimand.cli.quiet import quiet_start
from estimand.core.errors import NoModelError

_PROFILES = os.path.join("plugins", "profile")


@click.command()
@click.argument("model_dirs", metavar="MODEL_DIR...", nargs=-1, type=click.Path(exists=True))
@click.option("--program", help="Also show what the model of file.py[:NAME] gets wrong.")
@click.option("--rows", type=click.IntRange(min=1), default=5000, show_default=True,
              help="With --program: of so many rows of its evaluation input.")  # fmt: skip
@click.option("--words", multiple=True, metavar="NAME=FILE",
              help="The vocabulary of the embedding with NAME in its name.")  # fmt: skip
@click.option("--host", default="localhost", show_default=True, help="Where to listen.")
@click.option("--port", type=int, help="The port; by default the first free one from 6006 on.")
@click.option("--only-write", is_flag=True, help="Write what it shows, and do not start it.")
@settings.options
@click.pass_context
def board(
    context: click.Context,
    model_dirs: Sequence[str],
    program: str | None,
    rows: int,
    words: Sequence[str],
    host: str,
    port: int | None,
    only_write: bool,
    configs: Sequence[str],
    assignments: Sequence[str],
) -> None:
    """Start TensorBoard on one or several MODEL_DIRs, or on the folder above them.

    Before, it writes into each what TensorBoard can show and a training does not record: scalars
    by group, parameters, model card, embeddings. With --program, whose NAME is what `estimand
    eval` takes, also precision and recall at each checkpoint, and the worst rows and images.
    """
    if not model_dirs and program is None:
        raise click.UsageError("Give a MODEL_DIR, as in `estimand board runs/census`.")
    verbose = context.obj["verbose"]
    chosen = None if program is None else Program.parse(program).check()
    vocabularies = dict(_name_and_file(word) for word in words)
    given = settings.gather(configs, assignments)
    with told_from_its_side(verbose), quiet_start(verbose):
        from estimand.report import write_board

        made = None if chosen is None else ProgramParts.by(chosen, (), given)
        own = [] if made is None else [os.path.abspath(made.estimator.model_dir)]
        directories = list(
            dict.fromkeys(d for given in model_dirs or own for d in _model_dirs_below(given))
        )
        for directory in directories:
            asked = _asked(made) if made is not None and directory in own else {}
            write_board(directory, rows=rows, words=vocabularies, **asked)
    for directory in directories:
        click.echo(f"{directory}: written for TensorBoard.")
    # The folder above several model_dirs is what TensorBoard takes itself.
    above = None if len(model_dirs) != 1 else os.path.abspath(model_dirs[0])
    is_linked = above is None or above in directories
    from estimand.estimator.workspace import Workspace

    if made is None or not Workspace.params_noted_by(made.estimator):
        _tell_of_parameters(directories)
    _tell_of_profiles(directories, is_linked)
    if not only_write:
        with _folder_of(directories) if is_linked else contextlib.nullcontext(above) as folder:
            _start(str(folder), host, port)


def _asked(made: ProgramParts) -> dict[str, Any]:
    return {"estimator": made.estimator, "input_fn": made.eval_specs[0].input_fn}


def _name_and_file(word: str) -> tuple[str, str]:
    name, equals, file = word.partition("=")
    if not (name and equals and os.path.isfile(file)):
        raise click.UsageError(
            f"--words {word!r} is not NAME=FILE with a file that is there. Give part of the "
            "embedding's name and a file with a word a line, as in --words city=cities.txt."
        )
    return name, file


def _model_dirs_below(directory: str) -> Iterator[str]:
    """The model_dir itself, or those right below it."""
    from estimand.report import history

    try:
        history.read(directory)
        yield os.path.abspath(directory)
        return
    except NoModelError as error:
        nothing = error
    below = [entry.path for entry in os.scandir(directory) if entry.is_dir()]
    directories = []
    for path in sorted(below):
        try:
            history.read(path)
            directories.append(os.path.abspath(path))
        except NoModelError:
            continue
    if not directories:
        raise nothing
    yield from directories


def _tell_of_parameters(directories: Sequence[str]) -> None:
    from estimand.report import history

    if not any(history.read(directory).parameters() for directory in directories):
        click.echo("The HParams page stays empty: no run has noted what it was made with.")


def _tell_of_profiles(directories: Sequence[str], is_linked: bool) -> None:
    profiled = [each for each in directories if os.path.isdir(os.path.join(each, _PROFILES))]
    if profiled and importlib.util.find_spec("tensorboard_plugin_profile") is None:
        click.echo("There are profiles; to see them: pip install 'estimand[profile]'.")
    elif profiled and is_linked:  # the page of profiles does not follow links
        above = os.path.dirname(profiled[0])
        click.echo(f"There are profiles; to see them: estimand board {shlex.quote(above)}")


def _start(folder: str, host: str, port: int | None) -> None:
    from tensorboard import default, program

    server = program.TensorBoard(default.get_plugins())
    where = [] if port is None else [f"--port={port}"]
    server.configure(["tensorboard", "--logdir", folder, "--host", host, *where])
    if server.main() != 0:  # it has said why
        raise SystemExit(FAILED)


@contextlib.contextmanager
def _folder_of(directories: Sequence[str]) -> Iterator[str]:
    """One folder in which each of them has its name, by links."""
    with tempfile.TemporaryDirectory(prefix="estimand-board-") as folder:
        for directory in directories:
            os.symlink(directory, _free_name(folder, os.path.basename(directory)))
        yield folder


def _free_name(folder: str, name: str) -> str:
    path, number = os.path.join(folder, name), 1
    while os.path.lexists(path):
        number += 1
        path = os.path.join(folder, f"{name}_{number}")
    return path
