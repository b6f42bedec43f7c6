"""`estimand show`: what an exported model takes, what it answers, and where it comes from."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


@click.command()
@click.argument("directory", type=click.Path(exists=True))
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for programs.")
def show(directory: str, as_json: bool) -> None:
    """Describe an exported model, or the newest version below DIRECTORY."""
    from estimand.export.loaded import reading

    export = reading.find_version(directory)
    graphs = reading.read_meta_graphs(export)
    facts = describe(export, graphs, reading.read_card(export))
    if as_json:
        click.echo(json.dumps(facts, indent=1))
        return
    from rich.console import Console

    print_facts(Console(), facts)


def describe(export: str, graphs: list[Any], card: dict[str, Any]) -> dict[str, Any]:
    """All that there is to show, as plain values."""
    told = ("created", "model_fn", "checkpoint", "global_step", "exporter")
    assets = os.path.join(export, "assets")
    return {
        "directory": export,
        "bytes": sum(
            os.path.getsize(os.path.join(folder, name))
            for folder, _, names in os.walk(export)
            for name in names
        ),
        "assets": sorted(os.listdir(assets)) if os.path.isdir(assets) else [],
        **{name: card[name] for name in told if card.get(name) is not None},
        "trainable_parameters": card.get("trainable_parameters"),
        "metrics": card.get("metrics", {}),
        "examples": card.get("examples", {}),
        "graphs": [{"tags": list(g.tags), "signatures": g.signatures} for g in graphs],
    }


def print_facts(console: Console, facts: dict[str, Any]) -> None:
    from rich.table import Table

    summary = Table.grid(padding=(0, 2))
    for name, value in _summary(facts):
        summary.add_row(f"[bold]{name}[/bold]", value)
    console.print(summary)
    for graph in facts["graphs"]:
        for name, signature in graph["signatures"].items():
            console.print(_table(name, ", ".join(graph["tags"]), signature, facts["examples"]))


def _table(name: str, tags: str, signature: dict[str, Any], examples: dict[str, Any]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    from estimand.export.loaded.arrays import feature_rows, shape_text

    method = signature["method"].rpartition("/")[2]
    title = escape(f"{name} ({method}; {tags})")
    table = Table(title=f"[bold]{title}[/bold]", title_justify="left", title_style="")
    for column in ("", "name", "type", "shape", "tensor"):
        table.add_column(column, overflow="fold", no_wrap=column != "tensor")
    for part in ("inputs", "outputs"):
        for key, info in signature[part].items():
            kind = " ".join(filter(None, (info.get("kind"), info["dtype"])))
            tensors = "\n".join(info.get("parts", [info["tensor"]]))
            shape = shape_text(info["shape"])
            table.add_row(part[:-1], *map(escape, (key, kind, shape, tensors)))
            if part == "inputs" and (info["dtype"], info["shape"]) == ("string", [None]):
                for row in feature_rows(examples):
                    table.add_row("feature", *map(escape, row), "")
    return table


def _summary(facts: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [("directory", facts["directory"]), ("size", _size(facts["bytes"]))]
    for name in ("created", "model_fn", "checkpoint", "exporter"):
        if name in facts:
            rows.append((name, str(facts[name])))
    for name in ("global_step", "trainable_parameters"):
        if facts.get(name) is not None:
            rows.append((name.replace("_", " "), f"{facts[name]:,}"))
    if facts["metrics"]:
        metrics = (f"{key} = {_number(value)}" for key, value in facts["metrics"].items())
        rows.append(("metrics", ", ".join(metrics)))
    rows.append(("assets", ", ".join(facts["assets"]) or "none"))
    return rows


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"
