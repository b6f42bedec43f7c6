"""Cost curves, measured and drawn: python bench/curves.py [--quick] [--only A,B] [--rounds N].

All values go to bench/results/, as those of bench/run.py do, and the curves to docs/pictures.
`--draw FILE` only draws them anew, from the values of an earlier run.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import environments
import race
import report
import run
from plot import Plot
from workload import Workload
from workloads import curves

PICTURES = environments.BENCH.parent / "docs" / "pictures"


@dataclass(frozen=True)
class Picture:
    """One of the drawings: which values it shows, and what stands at its axes."""

    workload: str  # in workloads/curves.py
    measure: str
    title: str
    x: str
    y: str


PICTURES_BY_NAME = {
    "columns": Picture(
        "COLUMNS", "step", "Feature columns of a DNNClassifier", "columns", "ms/step"
    ),
    "tables": Picture(
        "TABLES", "step", "Embedding tables of 10,000 x 16, v1 Adam", "tables", "ms/step"
    ),
    "hooks": Picture("HOOKS", "step", "Hooks that fetch the loss", "hooks", "ms/step"),
    "evaluations": Picture(
        "EVALUATIONS", "run", "1,000 steps, with evaluations of 1,000 rows", "evaluations", "s"
    ),
    "checkpoints": Picture(
        "CHECKPOINTS", "blocked", "Training held up by a save", "megabytes", "ms"
    ),
    "models": Picture("MODELS", "start", "Server, from start until all answer", "models", "s"),
    "requests": Picture("MODELS", "rate", "REST, models asked in turn", "models", "requests/s"),
}
WORKLOADS = tuple(dict.fromkeys(picture.workload for picture in PICTURES_BY_NAME.values()))


def main() -> None:
    arguments = _arguments()
    if arguments.draw:
        content = json.loads(Path(arguments.draw).read_text())
        measured = {name: one["rounds"] for name, one in content["workloads"].items()}
        draw(content["machine"], measured)
        return
    facts = report.machine()
    results: dict[str, tuple[Workload, list[race.Round]]] = {}
    for name in arguments.only:
        workload = getattr(curves, name)
        rounds = run.measure(f"curves:{name}", workload, arguments, None)
        if any(rounds):
            results[name] = (workload, rounds)
            run.show(workload, rounds)
    print(f"\nAll values: {os.path.relpath(report.save(facts, results))}")
    draw(facts, {name: rounds for name, (_, rounds) in results.items()})


def draw(facts: dict[str, Any], measured: dict[str, list[race.Round]]) -> None:
    """Those pictures of which there are values."""
    for name, picture in PICTURES_BY_NAME.items():
        rounds = measured.get(picture.workload)
        if not rounds:
            continue
        machine = f"{facts['cores']} x {facts['cpu']}, load {facts['load'][0]:.1f} before"
        footer = f"{facts['date'][:10]}, {machine}, median of {len(rounds)}"
        lines = _lines(rounds, getattr(curves, picture.workload), picture.measure)
        plot = Plot(picture.title, picture.x, picture.y, footer, lines)
        path = PICTURES / f"curve_{name}.svg"
        path.write_text(plot.text())
        print(os.path.relpath(path))


def _lines(
    rounds: Sequence[race.Round], workload: Workload, measure: str
) -> dict[str, dict[int, float]]:
    """By contestant and point: the median of the rounds."""
    lines: dict[str, dict[int, float]] = {}
    for contestant in workload.contestants:
        for key in {key for r in rounds for key in r.get(contestant.name, {})}:
            name, _, point = key.rpartition("_")
            if name == measure:
                values = report.values_of(rounds, contestant.name, key)
                lines.setdefault(contestant.name, {})[int(point)] = statistics.median(values)
    return lines


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure and draw what one more of each costs.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--only", metavar="A,B", help=f"some of {', '.join(WORKLOADS).lower()}")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of each curve")
    parser.add_argument("--draw", metavar="FILE", help="draw the values of that file, and end")
    arguments = parser.parse_args()
    arguments.only = arguments.only.upper().split(",") if arguments.only else list(WORKLOADS)
    unknown = [name for name in arguments.only if name not in WORKLOADS]
    if unknown:
        parser.error(f"no such curve: {', '.join(unknown)}; known: {', '.join(WORKLOADS)}")
    return arguments


if __name__ == "__main__":
    main()
