"""`estimand migrate check`: what of a code base runs, and what has to be changed."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import click

from estimand.cli.quiet import quiet_start

if TYPE_CHECKING:
    from rich.console import Console

    from estimand.migrate.check import FileReport


@click.group()
def migrate() -> None:
    """Bring code that was written for tf.estimator to Estimand."""


@migrate.command(short_help="Say what runs as it is, and what needs a change.")
@click.argument("path", type=click.Path(exists=True))
@click.option("--all", "everything", is_flag=True, help="Also show the lines that need no change.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for programs.")
@click.pass_context
def check(context: click.Context, path: str, everything: bool, as_json: bool) -> None:
    """Say what in PATH, a file or a directory, runs as it is and what needs a change.

    Programs are read, not run. Ends with code 1 if something needs a change, else with 0.
    """
    with quiet_start(context.obj["verbose"]):
        from estimand.migrate.check import Verdict, check_path, summary

        reports = check_path(path)
    counts = summary(reports)
    if as_json:
        files = [report.as_dict() for report in reports]
        totals = {verdict.name.lower(): counts[verdict] for verdict in Verdict}
        click.echo(json.dumps({"files": files, "summary": totals}, indent=1))
    else:
        from rich.console import Console

        print_reports(Console(), path, reports, everything)
    context.exit(1 if counts[Verdict.CHANGE] else 0)


@migrate.command(short_help="Rewrite what can be rewritten safely; shows it first.")
@click.argument("path", type=click.Path(exists=True))
@click.option("--write", is_flag=True, help="Change the files; without it they are only shown.")
@click.pass_context
def fix(context: click.Context, path: str, write: bool) -> None:
    """Rewrite what means the same to the versions of today, in PATH, a file or a directory.

    Shows what would be changed, as a patch; --write changes it. What needs a thought stays, and
    is named by `estimand migrate check`.
    """
    with quiet_start(context.obj["verbose"]):
        from estimand.core.files.atomic_files import replace_text
        from estimand.migrate.check import python_files
        from estimand.migrate.names import Names
        from estimand.migrate.rewriting import difference, rewritten

        names, changed, files = Names(), 0, list(python_files(path))
    for file in files:
        try:
            with open(file, encoding="utf-8", newline="") as opened:
                before = opened.read()
        except (OSError, UnicodeDecodeError) as error:
            click.echo(f"{file} is left out, as it cannot be read: {error}", err=True)
            continue
        after = rewritten(before, names)
        if after == before:
            continue
        changed += 1
        click.echo(difference(before, after, file), nl=False)
        if write:
            mode = os.stat(file).st_mode
            replace_text(file, after)
            os.chmod(file, mode)
    told = "changed" if write else "would be changed"
    how = "" if write or not changed else " To change them: estimand migrate fix --write ..."
    click.echo(f"{changed} of {len(files)} files {told}.{how}", err=True)


def print_reports(console: Console, root: str, reports: list[FileReport], everything: bool) -> None:
    from rich.markup import escape
    from rich.table import Table

    from estimand.migrate.check import Verdict, summary

    colours = {Verdict.AS_IT_IS: "green", Verdict.RUN: "cyan", Verdict.CHANGE: "red"}
    shown = [report for report in reports if report.uses_tensorflow]
    for report in shown:
        for finding in report.findings:
            if everything or finding.verdict is Verdict.CHANGE:
                advice = f"; {finding.advice}" if finding.advice else ""
                where = f"{report.path}:{finding.line}"
                said = f"{finding.text} [{colours[finding.verdict]}]{finding.verdict.value}[/]"
                console.print(
                    f"{escape(where)}: {said}{escape(advice)}", soft_wrap=True, highlight=False
                )
    table = Table(title="Files", title_justify="left")
    table.add_column("file", overflow="fold")
    for column in ("as it is", "estimand run", "change"):
        table.add_column(column, justify="right")
    table.add_column("verdict")
    base = root if os.path.isdir(root) else os.path.dirname(root) or "."
    for report in shown:
        counts = [str(report.count(verdict)) for verdict in Verdict]
        verdict = f"[{colours[report.verdict]}]{report.verdict.value}[/]"
        table.add_row(escape(os.path.relpath(report.path, base)), *counts, verdict)
    if shown:
        console.print(table)
    totals = summary(reports)
    parts = [f"{totals[verdict]} {_plural(verdict, totals[verdict])}" for verdict in Verdict]
    without = len(reports) - len(shown)
    console.print(f"Files: {', '.join(parts)}; {without} without TensorFlow.", highlight=False)
    hows = sorted({finding.how for finding in shown if finding.verdict is not Verdict.AS_IT_IS})
    for how in hows:
        console.print(f"To run: {how}", highlight=False)


def _plural(verdict: object, count: int) -> str:
    text = str(getattr(verdict, "value", verdict))
    return text if count == 1 else text.replace("runs", "run", 1).replace("needs", "need", 1)
