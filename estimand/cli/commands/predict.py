"""`estimand predict`: the answers of an exported model to the rows of a file, or of many."""

from __future__ import annotations

import csv
import itertools
import json
import os
import sys
from collections.abc import Iterable
from typing import Any

import click

from estimand.cli.quiet import quiet_start
from estimand.cli.ray_option import ray_option

_FORMATS = click.Choice(["csv", "json", "parquet", "tfrecord"])
_OF_MANY = ("workers", "keep", "shard_rows", "ray")  # options that need --output


@click.command()
@click.argument("directory", type=click.Path(exists=True))
@click.option("--input", "path", required=True, metavar="FILE",
              help="CSV, JSON, Parquet, TFRecord; with --output also a pattern.")  # fmt: skip
@click.option("--input-format", type=_FORMATS,
              help="What the file is, if its ending does not tell.")  # fmt: skip
@click.option("--signature", help="Which one to call; the default one if left out.")
@click.option("--batch-size", type=click.IntRange(min=1), show_default="128; with --output 1024")
@click.option("--format", "output_format", type=_FORMATS,
              show_default="json; with --output that of the input",
              help="json: one object per line.")  # fmt: skip
@click.option("--output", metavar="DIR",
              help="Write files there, one for each shard of the input.")  # fmt: skip
@click.option("--workers", type=click.IntRange(min=1), show_default="1",
              help="How many processes share the shards.")  # fmt: skip
@click.option("--keep", multiple=True, metavar="COLUMN",
              help="Of the input, to be written beside the answers. Repeatable.")  # fmt: skip
@click.option("--shard-rows", type=click.IntRange(min=1), show_default="262144",
              help="Into how many rows Parquet files are cut.")  # fmt: skip
@ray_option("Work")
@click.pass_context
def predict(
    context: click.Context,
    directory: str,
    path: str,
    output: str | None,
    output_format: str | None,
    **options: Any,
) -> None:
    """Predict for the rows of a file with the exported model, or newest version, in DIRECTORY.

    With --output, for those of many files, in several processes; the same command again, after
    whatever has happened, goes on with what is not finished.
    """
    verbose = context.obj["verbose"]
    given = {name: value for name, value in options.items() if value not in (None, ())}
    if output is None:
        _print_answers(verbose, directory, path, output_format, given)
    else:
        _write_files(verbose, directory, path, output, {**given, "format": output_format})


def _print_answers(
    verbose: bool, directory: str, path: str, output_format: str | None, given: dict[str, Any]
) -> None:
    for name in _OF_MANY:
        if name in given:
            raise click.UsageError(f"--{name.replace('_', '-')} needs --output.")
    if output_format not in (None, "json", "csv"):
        raise click.UsageError(f"--format {output_format} needs --output.")
    if not os.path.exists(path):
        raise click.BadParameter(f"Path {path!r} does not exist.", param_hint="'--input'")
    with quiet_start(verbose):
        from estimand.export.loaded.loading import load_model
        from estimand.export.loaded.predict_rows import choose_signature, predict_rows
        from estimand.export.loaded.row_files import read_rows

        model = load_model(directory)
    with model:
        given_rows = read_rows(path, given.get("input_format"))
        called = choose_signature(model, given.get("signature"))
        size = given.get("batch_size", 128)
        write(predict_rows(model, called, given_rows, size), output_format or "json")


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


def _write_files(
    verbose: bool, directory: str, path: str, output: str, given: dict[str, Any]
) -> None:
    with quiet_start(verbose):
        from estimand import batch
    done = batch.predict(directory, path, output, **given)
    count = len(done.files)
    click.echo(f"{done.rows:,} rows in {count:,} {'file' if count == 1 else 'files'} in {output}")
    if done.errors:
        where = os.path.join(output, "_errors")
        click.echo(f"{done.errors:,} rows got no answer; {where} says which, and why.", err=True)
