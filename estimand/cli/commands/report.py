"""`estimand report`: trainings as one HTML page with pictures."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import click

from estimand.cli import settings
from estimand.cli.commands.doctor import EXTRAS
from estimand.cli.programs import Program, ProgramParts, told_from_its_side
from estimand.cli.quiet import quiet_start
from estimand.core.errors import MissingExtraError


@click.command()
@click.argument("model_dirs", metavar="MODEL_DIR...", nargs=-1, type=click.Path(exists=True))
@click.option("--program", help="Also judge the model of file.py[:NAME] on its evaluation input.")
@click.option("--out", default="report.html", show_default=True, help="The file to write.")
@click.option("--rows", type=click.IntRange(min=1), default=5000, show_default=True,
              help="With --program: judge it on so many rows.")  # fmt: skip
@settings.options
@click.pass_context
def report(
    context: click.Context,
    model_dirs: Sequence[str],
    program: str | None,
    out: str,
    rows: int,
    configs: Sequence[str],
    assignments: Sequence[str],
) -> None:
    """Write a report of one or several MODEL_DIRs: curves, checkpoints, exports, comparison.

    With --program, whose NAME is what `estimand eval` takes, it also shows what the model confuses,
    how sure it is, and which columns it relies on; MODEL_DIR may then be left out.
    """
    if not model_dirs and program is None:
        raise click.UsageError("Give a MODEL_DIR, as in `estimand report runs/census`.")
    _need_extra()
    verbose = context.obj["verbose"]
    chosen = None if program is None else Program.parse(program).check()
    given = settings.gather(configs, assignments)
    with told_from_its_side(verbose), quiet_start(verbose):
        from estimand import report as writer

        made: Any = None if chosen is None else ProgramParts.by(chosen, (), given)
        directories = list(model_dirs) or [made.estimator.model_dir]
        asked = {} if made is None else _asked(made)
        writer.write(out, directories, rows=rows, **asked)
    click.echo(f"{out}: {os.path.getsize(out) / 1e6:.1f} MB, open it in a browser.")


def _need_extra() -> None:
    """Before TensorFlow is loaded and a model judged for nothing."""
    for module in EXTRAS["report"]:
        if find_spec(module) is None:
            raise MissingExtraError("a report", "report", module)


def _asked(made: ProgramParts) -> dict[str, Any]:
    return {"estimator": made.estimator, "input_fn": made.eval_specs[0].input_fn}
