"""From the values of each round to ratios, tables and a file."""

from __future__ import annotations

import datetime
import json
import os
import platform
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import environments
from race import Round
from workload import Measure, Target, Workload

RESULTS = environments.BENCH / "results"


@dataclass(frozen=True)
class Spread:
    """Median and quartiles."""

    median: float
    low: float
    high: float
    count: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        if len(values) < 2:
            return cls(values[0], values[0], values[0], len(values))
        low, median, high = statistics.quantiles(values, n=4, method="inclusive")
        return cls(median, low, high, len(values))


def values_of(rounds: Sequence[Round], name: str, key: str) -> list[float]:
    return [r[name][key] for r in rounds if key in r.get(name, {})]


def ratio_of(rounds: Sequence[Round], measure: Measure, own: str, other: str) -> Spread | None:
    """`own` against `other`, each pair taken from the same round."""
    pairs = [
        (r[own][measure.key], r[other][measure.key])
        for r in rounds
        if measure.key in r.get(own, {}) and measure.key in r.get(other, {})
    ]
    return Spread.of([measure.ratio(a, b) for a, b in pairs]) if pairs else None


@dataclass(frozen=True)
class Verdict:
    """A target, and what was measured."""

    target: Target
    against: str
    ratio: Spread

    @property
    def met(self) -> bool:
        return self.target.met_by(self.ratio.median)


def judge(rounds: Sequence[Round], workload: Workload, target: Target) -> Verdict | None:
    """Compare with the best of those named; None if one of the two sides is missing."""
    measure = workload.measure(target.measure)
    medians = {
        name: statistics.median(values)
        for name in target.against
        if (values := values_of(rounds, name, measure.key))
    }
    if not medians:
        return None
    best = measure.best(medians)
    ratio = ratio_of(rounds, measure, target.contestant, best)
    return None if ratio is None else Verdict(target, best, ratio)


# Tables: rows of cells, printed in columns or as Markdown


def table(rounds: Sequence[Round], workload: Workload, measure: Measure) -> list[list[str]]:
    """One row per contestant."""
    names = [c.name for c in workload.contestants if values_of(rounds, c.name, measure.key)]
    baseline = next((name for name in workload.baseline if name in names), names[0])
    against = "as fast as" if measure.kind != "share" else "of"
    rows = [[measure.title or "contestant", measure.unit, f"{against} {baseline}", "CPU µs/unit"]]
    for name in names:
        value = Spread.of(values_of(rounds, name, measure.key))
        ratio = ratio_of(rounds, measure, name, baseline)
        cpu = values_of(rounds, name, "cpu_seconds_per_unit")
        rows.append(
            [
                name,
                _number(value.median),
                "-" if ratio is None else ratio_text(ratio, measure),
                _number(statistics.median(cpu) * 1e6) if cpu else "",
            ]
        )
    return rows if any(row[-1] for row in rows[1:]) else [row[:-1] for row in rows]


def targets_table(rounds: Sequence[Round], workload: Workload) -> list[list[str]]:
    rows = []
    for target in workload.targets:
        verdict = judge(rounds, workload, target)
        measure = workload.measure(target.measure)
        where = f"{target.contestant}{', ' + measure.title if measure.title else ''}"
        if verdict is None:
            rows.append([where, target.limit, "not measured", " or ".join(target.against), ""])
            continue
        ratio = ratio_text(verdict.ratio, measure)
        met = "met" if verdict.met else "not met"
        rows.append([where, target.limit, ratio, verdict.against, met])
    return [["target for", "limit", "measured", "against", ""], *rows] if rows else []


def columns(rows: Sequence[Sequence[str]], indent: str = "  ") -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [c.ljust(w) for c, w in zip(row, widths, strict=True)]
        lines.append(indent + "  ".join(cells).rstrip())
    return "\n".join(lines)


def markdown(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def ratio_text(ratio: Spread, measure: Measure) -> str:
    if measure.kind == "share":
        return f"{ratio.median:.1%} [{ratio.low:.1%}-{ratio.high:.1%}]"
    return f"{ratio.median:.2f}x [{ratio.low:.2f}-{ratio.high:.2f}]"


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.3g}"


# The file


def machine() -> dict[str, Any]:
    """What the figures depend on."""
    pages, page = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    return {
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": round(pages * page / 2**30, 1),
        "system": platform.platform(),
        "load": os.getloadavg(),
        "packages": {
            name: _packages(python)
            for name in environments.FRAMEWORK
            if (python := environments.interpreter(name)) is not None
        },
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((x.split(":", 1)[1].strip() for x in lines if x.startswith("model name")), "")


_LIST_PACKAGES = """
import importlib.metadata, json, platform
found = {"python": platform.python_version()}
for name in ("estimand", "tensorflow", "tensorflow-cpu", "tensorflow-estimator", "keras", "numpy",
             "torch", "lightning"):
    try:
        found[name] = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


def _packages(python: Path) -> dict[str, str]:
    answer = subprocess.run([str(python), "-c", _LIST_PACKAGES], capture_output=True, text=True)
    return json.loads(answer.stdout) if answer.returncode == 0 else {}


def save(facts: dict[str, Any], results: dict[str, tuple[Workload, list[Round]]]) -> Path:
    """Write all values as JSON, and the tables as Markdown beside it."""
    RESULTS.mkdir(exist_ok=True)
    stem = RESULTS / datetime.datetime.now().strftime("%Y-%m-%d-%H%M%S")
    content = {
        "machine": facts,
        "workloads": {
            name: {
                "title": workload.title,
                "rounds": rounds,
                "tables": {m.key: table(rounds, workload, m) for m in measured(workload, rounds)},
                "targets": targets_table(rounds, workload),
            }
            for name, (workload, rounds) in results.items()
        },
    }
    stem.with_suffix(".json").write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    stem.with_suffix(".md").write_text(_document(facts, results))
    return stem.with_suffix(".json")


def measured(workload: Workload, rounds: Sequence[Round]) -> list[Measure]:
    """The measures for which there is a value."""
    return [
        m
        for m in workload.measures
        if any(values_of(rounds, c.name, m.key) for c in workload.contestants)
    ]


def _document(facts: dict[str, Any], results: dict[str, tuple[Workload, list[Round]]]) -> str:
    parts = [
        f"{facts['date'][:10]}, {facts['cores']} x {facts['cpu']}, {facts['memory_gib']} GiB; "
        f"load {facts['load'][0]:.1f} at the start."
    ]
    for workload, rounds in results.values():
        parts.append(f"## {workload.title}\n\n{len(rounds)} rounds; median [quartiles].")
        parts += [markdown(table(rounds, workload, m)) for m in measured(workload, rounds)]
        if targets := targets_table(rounds, workload):
            parts.append(markdown(targets))
    return "\n\n".join(parts) + "\n"
