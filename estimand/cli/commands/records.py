"""`estimand records`: make, look into and check TFRecord files."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from estimand.cli.group import FAILED, os_errors_in_a_sentence
from estimand.cli.quiet import quiet_start
from estimand.cli.ray_option import ray_option

if TYPE_CHECKING:
    from rich.table import Table

    from estimand.inputs.records import FileReport, Schema


@click.group()
def records() -> None:
    """Make, look into and check TFRecord files."""


_compression = click.option(
    "--compression",
    type=click.Choice(["none", "GZIP", "ZLIB"], case_sensitive=False),
    help="How the files are compressed; looked up in each file unless given.",
)
_files = click.argument("files", nargs=-1, required=True)
_OF_ONE_FILE = ("shards", "delimiter")
_OF_MANY = ("workers", "input_format", "shard_rows", "ray")


@records.command(short_help="Write CSV, JSON, Parquet files or folders of images as TFRecords.")
@click.argument("source")
@click.argument("target")
@click.option("--shards", type=click.IntRange(min=1), show_default="1",
              help="How many files to write, of one file.")  # fmt: skip
@click.option("--compression", type=click.Choice(["GZIP", "ZLIB"], case_sensitive=False),
              help="None if left out.")  # fmt: skip
@click.option("--delimiter", help="Of a CSV file, if it is not a comma.")
@click.option("--kind", "kinds", multiple=True, metavar="NAME=KIND", help="bytes, float or int64.")
@click.option("--workers", type=click.IntRange(min=1), show_default="1",
              help="How many processes share the files.")  # fmt: skip
@click.option("--input-format", type=click.Choice(["csv", "json", "parquet"]),
              help="What the files are, if their endings do not tell.")  # fmt: skip
@click.option("--shard-rows", type=click.IntRange(min=1), show_default="262144; of images 1024",
              help="Into how many rows Parquet files and folders of images are cut.")  # fmt: skip
@ray_option("Work")
@click.pass_context
def make(
    context: click.Context, source: str, target: str, kinds: Sequence[str], **options: Any
) -> None:
    """Write the CSV file or folder of image folders SOURCE as the TFRecord file TARGET.

    Where TARGET is a directory (it exists, or ends with a slash), SOURCE may be a pattern, of
    Parquet and JSON files, too: each becomes a file there, in several processes, with statistics
    beside them; the same command again, after whatever has happened, goes on with what is not
    finished.
    """
    wishes = {}
    for wish in kinds:
        name, equals, kind = wish.rpartition("=")
        if not equals:
            raise click.BadParameter(f"{wish!r} is not NAME=KIND.", param_hint="--kind")
        wishes[name] = kind
    given = {name: value for name, value in options.items() if value is not None}
    to_folder = target.endswith("/") or os.path.isdir(target)
    for name in given:
        if name in (_OF_ONE_FILE if to_folder else _OF_MANY):
            what = "a file" if to_folder else "a directory: end it with a slash"
            raise click.UsageError(f"--{name.replace('_', '-')} needs a TARGET that is {what}.")
    with os_errors_in_a_sentence():
        make_them = _make_many if to_folder else _make_one
        make_them(context.obj["verbose"], source, target, kinds=wishes, **given)


def _make_one(verbose: bool, source: str, target: str, **given: Any) -> None:
    from estimand.inputs.records import write

    written = write(target, source, **given)
    first, *others = written.files
    click.echo(f"{written.records:,} records in {first}{f' to {others[-1]}' if others else ''}")


def _make_many(verbose: bool, source: str, target: str, **given: Any) -> None:
    with quiet_start(verbose):
        from estimand import batch
    made = batch.make_records(source, target, **given)
    count = len(made.files)
    noun = "file" if count == 1 else "files"
    click.echo(f"{made.records:,} records in {count:,} {noun} in {target}")
    _print(_schema_table(made.schema))
    click.echo(f"{os.path.join(target, '_statistics.json')} has more about their values.")
    if made.errors:
        where = os.path.join(target, "_errors")
        click.echo(f"{made.errors:,} rows are no records; {where} says which, and why.", err=True)


@records.command()
@_files
@click.option("--first", default=3, show_default=True, help="How many records to print.")
@_compression
@click.pass_context
def show(context: click.Context, files: Sequence[str], first: int, compression: str | None) -> None:
    """Print the sizes, features and first records of FILES."""
    with os_errors_in_a_sentence():
        from estimand.inputs.records import inspect

        with quiet_start(context.obj["verbose"]):
            seen = inspect(list(files), compression=compression, first=first)
    table = _table("file", "records", "smallest", "largest", "on disk")
    for file in seen.files:
        name = f"{file.path} ({file.compression})" if file.compression else file.path
        sizes = (_size(file.smallest), _size(file.largest), _size(file.file_bytes))
        table.add_row(name, f"{file.records:,}", *sizes)
    _print(table)
    _print(_schema_table(seen.schema))
    for number, row in enumerate(seen.first):
        click.echo(f"record {number}")
        for name, value in row.items():
            click.echo(f"  {name}: {_shortened(value)}")


@records.command()
@_files
@click.option("--quiet", "-q", is_flag=True, help="Print nothing about files that are in order.")
@_compression
@click.pass_context
def verify(
    context: click.Context, files: Sequence[str], quiet: bool, compression: str | None
) -> None:
    """Check the CRC of every record of FILES. Exit code 1 if any file is damaged."""
    with os_errors_in_a_sentence():
        from estimand.inputs.records import verify as verify_files

        reports = verify_files(list(files), compression=compression)
    damaged = [report for report in reports if not report.ok]
    for report in reports:
        if report.ok and not quiet:
            size = _size(report.file_bytes)
            state = f"in order ({size})" if report.records else "(an empty file)"
            noun = "record" if report.records == 1 else "records"
            click.echo(f"{report.path}: {report.records:,} {noun} {state}")
        for line in _problem_lines(report):
            click.echo(line, err=True)
    context.exit(FAILED if damaged else 0)


def _problem_lines(report: FileReport) -> Iterator[str]:
    most = 10
    for problem in report.problems[:most]:
        yield f"{report.path}: {problem}"
    if len(report.problems) > most:
        yield f"{report.path}: and {len(report.problems) - most} more"


@records.command()
@_files
@click.option("--all", "every", is_flag=True, help="Look at all records, not the first 10,000.")
@click.option("--python", is_flag=True, help="Print a spec to paste into a program.")
@_compression
@click.pass_context
def schema(
    context: click.Context,
    files: Sequence[str],
    every: bool,
    python: bool,
    compression: str | None,
) -> None:
    """Print the features of FILES and how to parse them."""
    with os_errors_in_a_sentence():
        from estimand.inputs.records import schema as look

        with quiet_start(context.obj["verbose"]):
            schema = look(list(files), compression=compression, limit=None if every else 10_000)
            lines = list(_spec_lines(schema)) if python else []
    if python:
        click.echo("\n".join(lines))
        return
    _print(_schema_table(schema))
    if not schema.complete:
        click.echo(f"from the first {schema.records:,} records; --all looks at every one")


def _spec_lines(schema: Schema) -> Iterator[str]:
    yield from _spec("features", schema.parse_spec())
    if schema.sequences:
        yield from _spec("sequence_features", schema.sequence_spec())


def _spec(name: str, spec: dict[str, Any]) -> Iterator[str]:
    yield f"{name} = {{"
    for key, feature in spec.items():
        shape = f"{feature.shape}, " if hasattr(feature, "shape") else ""
        missing = ", allow_missing=True" if getattr(feature, "allow_missing", False) else ""
        kind = type(feature).__name__
        yield f"    {key!r}: tf.io.{kind}({shape}tf.{feature.dtype.name}{missing}),"
    yield "}"


def _schema_table(schema: Schema) -> Table:
    table = _table("feature", "kind", "values", "in records", "longest")
    for names, what in ((schema.features, ""), (schema.sequences, " per step")):
        for name, feature in names.items():
            counts = {feature.fewest or 0, feature.most}
            values = " to ".join(map(str, sorted(counts))) + what
            share = "all" if feature.records == schema.records else f"{feature.records:,}"
            kind = " or ".join(sorted(feature.kinds)) or "unknown"
            table.add_row(
                name, kind, values, share, _size(feature.longest) if feature.longest else ""
            )
    return table


def _table(first: str, *others: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(box=box.SIMPLE, pad_edge=False)
    table.add_column(first, overflow="fold")
    for name in others:
        table.add_column(name, justify="right")
    return table


def _print(table: Table) -> None:
    from rich.console import Console

    # Into a file or a pipe, lines are as long as they need to be.
    width = None if sys.stdout.isatty() else 200
    Console(width=width, highlight=False).print(table)


def _size(count: int) -> str:
    """
    >>> _size(1_500_000)
    '1.5 MB'
    """
    size, units = float(count), ["B", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.0f} {units[0]}" if units[0] == "B" else f"{size:.1f} {units[0]}"


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:90]}... ({len(text):,} characters)"
