"""`estimand new`: a small project that trains, tests and serves at once."""

from __future__ import annotations

import os
from importlib.resources import files

import click

_NAMES = {"gitignore": ".gitignore"}


@click.command()
@click.argument("directory", type=click.Path(file_okay=False))
def new(directory: str) -> None:
    """Write a small project into DIRECTORY: a model, a test, a maker of data, a README.

    Nothing is overwritten: DIRECTORY must not exist yet, or be empty.
    """
    name = os.path.basename(os.path.abspath(directory))
    if os.path.isdir(directory) and os.listdir(directory):
        raise click.UsageError(f"{directory} is not empty. Give the name of a new directory.")
    if not name.replace("-", "_").replace(".", "_").isidentifier():
        raise click.UsageError(
            f"{name!r} cannot name a model: letters, digits, '_', '-' and '.', not a digit first."
        )
    os.makedirs(directory, exist_ok=True)
    for template in sorted(files("estimand.cli").joinpath("project").iterdir(), key=str):
        file = template.name.removesuffix(".txt")
        path = os.path.join(directory, _NAMES.get(file, file))
        with open(path, "x", encoding="utf-8") as target:
            target.write(template.read_text(encoding="utf-8").replace("NAME", name))
        click.echo(path)
    click.echo(f"\nNext:\n  cd {directory}\n  python make_data.py\n  estimand train program.py")
