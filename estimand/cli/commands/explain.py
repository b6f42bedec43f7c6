"""`estimand explain`: what an exported model's answers rest on."""

from __future__ import annotations

import itertools
import json
from typing import Any

import click

from estimand.cli.quiet import quiet_start


@click.command()
@click.argument("directory", metavar="EXPORT", type=click.Path(exists=True))
@click.argument("path", metavar="ROWS", type=click.Path(exists=True, dir_okay=False))
@click.option("--label", help="The column that is the label: say what the model loses.")
@click.option("--method", default="permutation", show_default=True,
              type=click.Choice(["permutation", "shapley"]))  # fmt: skip
@click.option("--signature", help="Which one to call; the default one if left out.")
@click.option("--output", help="Which answer to explain.")
@click.option("--rows", "most", default=1000, show_default=True, type=click.IntRange(min=2),
              help="Look at so many rows.")  # fmt: skip
@click.option("--format", "output_format", default="text", show_default=True,
              type=click.Choice(["text", "json"]))  # fmt: skip
@click.pass_context
def explain(
    context: click.Context,
    directory: str,
    path: str,
    label: str | None,
    method: str,
    signature: str | None,
    output: str | None,
    most: int,
    output_format: str,
) -> None:
    """Say which columns the model in EXPORT relies on, for the rows of a CSV or JSON file."""
    with quiet_start(context.obj["verbose"]):
        from estimand.explaining import explain as asked
        from estimand.export.loaded.row_files import read_rows

        rows: list[Any] = list(itertools.islice(read_rows(path), most))
        if not rows or isinstance(rows[0], bytes):
            raise click.UsageError(f"{path} has no rows with names: give a CSV or JSON file.")
        explanation = asked(
            directory, rows, label, method=method, signature=signature, output=output
        )  # fmt: skip
    if output_format == "text":
        click.echo(str(explanation))
        return
    values = None if explanation.values is None else explanation.values.tolist()
    told = {
        "what": explanation.what,
        "columns": {importance.column: importance.loss for importance in explanation.ranking},
        **({} if values is None else {"names": explanation.columns, "values": values}),
        **({} if explanation.base is None else {"base": explanation.base.tolist()}),
    }
    click.echo(json.dumps(told))
