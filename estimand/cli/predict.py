"""`estimand predict`: the answers of an exported model to the rows of a file."""

from __future__ import annotations

import csv
import itertools
import json
import sys
from collections.abc import Iterable
from typing import Any

import click

from estimand.cli.quiet import quiet_start


@click.command()
@click.argument("directory", type=click.Path(exists=True))
@click.option(
    "--input", "path", required=True, type=click.Path(exists=True), help="CSV, JSON, TFRecord."
)
@click.option(
    "--input-format",
    type=click.Choice(["csv", "json", "tfrecord"]),
    help="What the file is, if its ending does not tell.",
)
@click.option("--signature", help="Which one to call; the default one if left out.")
@click.option("--batch-size", default=128, show_default=True, type=click.IntRange(min=1))
@click.option(
    "--format",
    "output_format",
    default="json",
    show_default=True,
    type=click.Choice(["json", "csv"]),
    help="json: one object per line.",
)
@click.pass_context
def predict(
    context: click.Context,
    directory: str,
    path: str,
    input_format: str | None,
    signature: str | None,
    batch_size: int,
    output_format: str,
) -> None:
    """Predict for the rows of a file with the exported model, or newest version, in DIRECTORY."""
    with quiet_start(context.obj["verbose"]):
        from estimand.export import rows
        from estimand.export.loading import load_model

        model = load_model(directory)
    with model:
        given_rows = rows.read_rows(path, input_format)
        called = rows.choose_signature(model, signature)
        write(rows.predict_rows(model, called, given_rows, batch_size), output_format)


def write(answers: Iterable[dict[str, Any]], output_format: str) -> None:
    answers = iter(answers)
    if output_format == "json":
        for answer in answers:
            click.echo(json.dumps(answer, ensure_ascii=False, allow_nan=False))
        return
    first = next(answers, None)
    if first is None:
        return
    writer = csv.DictWriter(sys.stdout, fieldnames=list(first))
    writer.writeheader()
    for answer in itertools.chain([first], answers):
        writer.writerow({name: _cell(value) for name, value in answer.items()})


def _cell(value: Any) -> Any:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else value
