"""Measure Estimand against its peers: python bench/run.py [--quick] [--only A,B] [--rounds N].

`--before REVISION` measures Estimand against itself at another revision instead.

Prints, for each workload, how every contestant compares with tf.estimator 2.15, and keeps all
values in bench/results/. Contestants whose environment is missing are left out; make it with
`python bench/setup.py`.
"""

from __future__ import annotations

import argparse
import importlib
import os
import time
from collections.abc import Sequence

import before
import environments
import race
import report
from workload import Contestant, Workload

WORKLOADS = (
    "step_rate",
    "step_rate_with_hook",
    "in_memory",
    "short_run",
    "canned",
    "wide_deep",
    "criteo",
    "records",
    "csv_files",
    "cnn",
    "mlp",
    "lstm",
    "gru",
    "transformer",
    "embeddings",
    "predict",
    "first_step",
    "checkpoint",
    "repeated_evaluate",
    "train_and_evaluate",
    "parameter_server",
    "capacity",
    "cluster_start",
    "mirrored",
    "serving_rest",
    "serving_grpc",
    "serving_batching",
    "serving_swap",
)


def main() -> None:
    arguments = _arguments()
    facts = report.machine()
    print(f"{facts['cores']} x {facts['cpu']}, load {facts['load'][0]:.1f}")
    for name in environments.REQUIREMENTS:
        if environments.interpreter(name) is None:
            print(f"No environment {name!r}: left out. python bench/setup.py {name} makes it.")
    results: dict[str, tuple[Workload, list[race.Round]]] = {}
    try:
        with before.checked_out(arguments.before) as other:
            for name in arguments.only:
                workload = importlib.import_module(f"workloads.{name}").WORKLOAD
                rounds = measure(name, workload, arguments, other)
                if any(rounds):
                    results[name] = (workload, rounds)
                    show(workload, rounds)
    finally:  # also after Ctrl-C: what is there has taken minutes
        if results:
            print(f"\nAll values: {os.path.relpath(report.save(facts, results))}")


def measure(
    name: str, workload: Workload, arguments: argparse.Namespace, other: str | None
) -> list[race.Round]:
    present = _present(workload.contestants, arguments.quick)
    if other is not None:
        present = before.with_twins(present, other)
    rounds = arguments.rounds or (workload.quick_rounds if arguments.quick else workload.rounds)
    print(f"\n{workload.title} ({len(present)} contestants, {rounds} rounds) ...", flush=True)
    start, load = time.monotonic(), os.getloadavg()[0]
    results = race.run(name, workload, present, rounds=rounds, quick=arguments.quick)
    print(f"  took {time.monotonic() - start:.0f} s, load {load:.1f} to {os.getloadavg()[0]:.1f}")
    return results


def _present(contestants: Sequence[Contestant], quick: bool) -> list[Contestant]:
    wanted = [c for c in contestants if c.in_quick or not quick]
    return [c for c in wanted if environments.interpreter(c.environment) is not None]


def show(workload: Workload, rounds: list[race.Round]) -> None:
    for measure in report.measured(workload, rounds):
        print("\n" + report.columns(report.table(rounds, workload, measure)))
    if targets := report.targets_table(rounds, workload):
        print("\n" + report.columns(targets), flush=True)
    if compared := before.table(rounds, workload):
        print("\n" + report.columns(compared), flush=True)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure Estimand against its peers.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and contestants")
    parser.add_argument("--only", metavar="A,B", help=f"some of {', '.join(WORKLOADS)}")
    parser.add_argument("--rounds", type=int, metavar="N", help="rounds of each workload")
    parser.add_argument("--before", metavar="REVISION", help="against Estimand as it was there")
    arguments = parser.parse_args()
    arguments.only = arguments.only.split(",") if arguments.only else list(WORKLOADS)
    unknown = [name for name in arguments.only if name not in WORKLOADS]
    if unknown:
        parser.error(f"no such workload: {', '.join(unknown)}; known: {', '.join(WORKLOADS)}")
    return arguments


if __name__ == "__main__":
    main()
