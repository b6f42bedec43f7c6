"""`estimand checkpoint`: look into checkpoints, compare them, convert their names."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from estimand.cli.group import FAILED, os_errors_in_a_sentence
from estimand.cli.quiet import quiet_start

if TYPE_CHECKING:
    from rich.table import Table

    from estimand.engine.checkpoints.contents import CheckpointContents

_WIDE = 10_000  # columns where the output is no terminal: nothing is cut


@click.group()
def checkpoint() -> None:
    """Look into checkpoints, compare them, convert their names."""


# ------------------------------------------------------------------ show


@checkpoint.command()
@click.argument("path")
@click.option("--stats", is_flag=True, help="Read the values; print mean, deviation, range.")
@click.pass_context
def show(context: click.Context, path: str, stats: bool) -> None:
    """Print what the checkpoint at PATH holds.

    PATH is a checkpoint, a model_dir (its newest checkpoint) or a SavedModel.
    """
    contents = _read(path)
    step = contents.step
    with quiet_start(context.obj["verbose"]):  # of TensorFlow, which only values need
        rows = [_row(contents, tensor, stats) for tensor in contents.tensors]
    table = _table("variable", "shape", "type", "size", right=4)
    if stats:
        for title in ("mean", "std", "min", "max", "zeros"):
            table.add_column(title, justify="right")
    for row in rows:
        table.add_row(*row)
    click.echo(contents.prefix)
    _print(table)
    numbers = sum(tensor.elements for tensor in contents.tensors)
    size = _size(sum(tensor.nbytes for tensor in contents.tensors))
    at = "no global step" if step is None else f"global step {step:,}"
    click.echo(f"{len(contents.tensors)} variables, {numbers:,} values, {size}, {at}")


def _row(contents: CheckpointContents, tensor: Any, stats: bool) -> list[str]:
    row = [tensor.name, _shape(tensor.shape), tensor.dtype, _size(tensor.nbytes)]
    return row + _statistics(contents.value(tensor.name)) if stats else row


def _statistics(value: Any) -> list[str]:
    import numpy as np

    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or not array.size:
        return [""] * 5
    numbers = array.astype(np.float64)
    told = (numbers.mean(), numbers.std(), numbers.min(), numbers.max())
    return [*(f"{number:.4g}" for number in told), f"{np.mean(numbers == 0):.0%}"]


# ------------------------------------------------------------------ diff


@checkpoint.command()
@click.argument("first")
@click.argument("second")
@click.option(
    "--tolerance", default=0.0, show_default=True, help="Largest difference that is let pass."
)
@click.pass_context
def diff(context: click.Context, first: str, second: str, tolerance: float) -> None:
    """Compare two checkpoints by name, shape and value. Exit code 1 if they differ."""
    a, b = _read(first), _read(second)
    with quiet_start(context.obj["verbose"]):
        differences = list(_differences(a, b, tolerance))
    same = len({t.name for t in a.tensors} | {t.name for t in b.tensors}) - len(differences)
    if not differences:
        click.echo(f"{same} variables, all equal.")
        return
    table = _table("variable", "difference", right=3)
    for row in differences:
        table.add_row(*row)
    click.echo(f"first:  {a.prefix}\nsecond: {b.prefix}")
    _print(table)
    click.echo(f"{len(differences)} variables differ, {same} are equal.")
    context.exit(FAILED)


def _differences(
    a: CheckpointContents, b: CheckpointContents, tolerance: float
) -> Iterator[tuple[str, str]]:
    ours, theirs = ({tensor.name: tensor for tensor in contents.tensors} for contents in (a, b))
    for name in sorted(ours.keys() | theirs.keys()):
        if name not in theirs or name not in ours:
            there = ours.get(name) or theirs.get(name)
            assert there is not None
            where = "first" if name in ours else "second"
            yield name, f"only in the {where}: {_shape(there.shape)} {there.dtype}"
        elif (ours[name].shape, ours[name].dtype) != (theirs[name].shape, theirs[name].dtype):
            kinds = [f"{_shape(x[name].shape)} {x[name].dtype}" for x in (ours, theirs)]
            yield name, " against ".join(kinds)
        elif told := _values_differ(a.value(name), b.value(name), tolerance):
            yield name, told


def _values_differ(first: Any, second: Any, tolerance: float) -> str | None:
    import numpy as np

    ours, two = np.asarray(first), np.asarray(second)
    if ours.dtype.kind not in "biufV":
        return None if np.array_equal(ours, two) else "other values"
    ours, two = ours.astype(np.float64), two.astype(np.float64)
    with np.errstate(invalid="ignore"):
        distance = np.abs(ours - two)
        # Equal infinities and NaNs on both sides are no difference.
        distance = np.where((ours == two) | (np.isnan(ours) & np.isnan(two)), 0.0, distance)
    over = int(np.sum(~(distance <= tolerance)))
    if not over:
        return None
    return f"max abs difference {np.max(distance):.4g}, {over:,} of {distance.size:,} values"


# ------------------------------------------------------------------ convert


@checkpoint.command(short_help="Write a canned model's names of TensorFlow 1 as of 2, or back.")
@click.argument("source")
@click.argument("target")
@click.option("--to", "to", type=click.Choice(["v1", "v2"]), default="v2", show_default=True)
@click.option("--learning-rate", type=float, help="V1 did not save it. By default V1's default.")
@click.option("--linear-learning-rate", type=float, help="Of the linear part of wide and deep.")
@click.option("--momentum", type=float, help="Needed where the checkpoint has momentum.")
@click.option("--force", is_flag=True, help="Write even though TARGET is not empty.")
@click.pass_context
def convert(
    context: click.Context,
    source: str,
    target: str,
    to: str,
    learning_rate: float | None,
    linear_learning_rate: float | None,
    momentum: float | None,
    force: bool,
) -> None:
    """Write a canned model's checkpoint with the names of the other generation.

    SOURCE is a checkpoint or model_dir of tf.compat.v1.estimator (or, with --to v1, of
    tf.estimator); TARGET is the model_dir to write.
    """
    contents = _read(source)
    with quiet_start(context.obj["verbose"]), os_errors_in_a_sentence():
        from estimand.canned import name_conversion

        _check_target(contents.prefix, target, force)
        values = {tensor.name: contents.value(tensor.name) for tensor in contents.tensors}
        if to == "v2":
            values = name_conversion.to_v2(values, learning_rate, linear_learning_rate, momentum)
        else:
            values = name_conversion.to_v1(values)
        path = _write(target, contents.prefix, values)
    click.echo(f"{len(values)} variables in {path}")
    for name in sorted(values):
        if to == "v2" and name.endswith("/learning_rate"):
            click.echo(f"{name} is {float(values[name]):.6g}")


def _check_target(prefix: str, target: str, force: bool) -> None:
    if os.path.realpath(target) == os.path.realpath(os.path.dirname(prefix) or "."):
        raise click.UsageError(f"{target} is where the checkpoint comes from. Give another.")
    if os.path.exists(target) and not os.path.isdir(target):
        raise click.UsageError(f"{target} is a file. Give a directory to write.")
    if os.path.isdir(target) and os.listdir(target) and not force:
        raise click.UsageError(f"{target} is not empty. Add --force to write into it.")


def _write(target: str, prefix: str, values: dict[str, Any]) -> str:
    import tensorflow as tf

    from estimand.engine.checkpoints.api import (
        CheckpointWriter,
        Entry,
        KeepPolicy,
        checkpoint_step,
    )

    step = int(values["global_step"]) if "global_step" in values else checkpoint_step(prefix)
    entries = [Entry(name, tf.constant(value)) for name, value in values.items()]
    with CheckpointWriter(target, KeepPolicy(None)) as writer:
        return writer.save(step, entries, synchronous=True)


# ------------------------------------------------------------------ shared


def _read(path: str) -> CheckpointContents:
    from estimand.engine.checkpoints.contents import CheckpointContents

    return CheckpointContents(path)


def _table(*titles: str, right: int) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for place, title in enumerate(titles, start=1):
        table.add_column(title, overflow="fold", justify="right" if place >= right else "left")
    return table


def _print(table: Table) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    if not sys.stdout.isatty():
        console = Console(highlight=False, markup=False, width=_WIDE)
    console.print(table)


def _shape(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
