"""Kills real processes at random moments, with random settings, and compares how they end.

    python -m tests.soak.kill_campaign --minutes 20          # as many as fit
    python -m tests.soak.kill_campaign --kills 1000 --seed 7
    python -m tests.soak.kill_campaign --seed 7 --case 41    # the settings of one case again

Each case is a program with its settings: it is run once as it is, and once killed with SIGKILL
again and again until it is through. Its last checkpoint, its metrics and its exports have to be
the same, bit for bit. Settings follow from the seed and the number of the case; the moments of the
kills do not, since they are times.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

LANES = max(1, min(4, os.cpu_count() or 1))


@dataclass
class Tally:
    """What has come out so far."""

    cases: collections.Counter[str] = field(default_factory=collections.Counter)
    kills: collections.Counter[str] = field(default_factory=collections.Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)

    def add(self, report: dict[str, Any]) -> None:
        self.cases[report["kind"]] += 1
        self.kills[report["kind"]] += report["kills"]
        if report["failure"]:
            self.failures.append(report)


def chance_of(seed: int, number: int) -> random.Random:
    return random.Random(f"{seed}/{number}")


def run_case(seed: int, number: int, only: list[str] | None = None) -> dict[str, Any]:
    """Run one case; what it was and how it ended."""
    from tests.soak.kinds import KINDS
    from tests.soak.lives import Failed

    chance = chance_of(seed, number)
    names = [name for name in KINDS if not only or name in only]
    [name] = chance.choices(names, [KINDS[name][1] for name in names])
    kind, _, kills_of = KINDS[name]
    report: dict[str, Any] = {"case": number, "kind": name, "kills": 0, "failure": None}
    report["settings"] = kind.draw(chance)
    folder = Path(tempfile.mkdtemp(prefix="estimand-kills-"))
    try:
        case = kind(report["settings"], folder / "case")
        case.prepare()
        report["kills"] = case.run_killed(chance, kills_of(chance))
        case.compare()
    except Failed as failure:
        report["failure"] = str(failure)
        report["folder"] = str(folder)
        return report
    shutil.rmtree(folder, ignore_errors=True)
    return report


def lane(arguments: argparse.Namespace) -> None:
    """One case after another; a line of JSON for each."""
    from tests.soak import lives

    os.environ["ESTIMAND_TESTS_IMPORTS"] = lives.IMPORTS
    end = time.monotonic() + 60 * arguments.minutes
    number = arguments.lane
    while time.monotonic() < end:
        report = run_case(arguments.seed, number, arguments.only)
        print(json.dumps(report), flush=True)
        number += LANES


def reports(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The reports of all lanes, as they come."""
    command = [sys.executable, "-m", "tests.soak.kill_campaign", "--seed", str(arguments.seed)]
    command += ["--minutes", str(arguments.minutes)]
    command += [f"--only={name}" for name in arguments.only or ()]
    import selectors

    running = [
        subprocess.Popen([*command, "--lane", str(i)], stdout=subprocess.PIPE, text=True)
        for i in range(LANES)
    ]
    try:
        with selectors.DefaultSelector() as ready:
            for one in running:
                assert one.stdout is not None
                ready.register(one.stdout, selectors.EVENT_READ)
            while ready.get_map():
                for key, _ in ready.select():
                    line = key.fileobj.readline()  # type: ignore[union-attr]
                    if line:
                        yield json.loads(line)
                    else:
                        ready.unregister(key.fileobj)
        if failed := [one.wait() for one in running if one.wait()]:
            raise SystemExit(f"A lane of the campaign failed itself: exit codes {failed}.")
    finally:
        for one in running:
            one.terminate()
            one.wait()


def tell(tally: Tally, seed: int, since: float) -> None:
    kinds = ", ".join(f"{kind} {count}" for kind, count in sorted(tally.kills.items()))
    print(
        f"seed {seed}: {sum(tally.kills.values())} kills in {sum(tally.cases.values())} programs "
        f"({kinds}), {len(tally.failures)} failures, {(time.monotonic() - since) / 60:.1f} min",
        flush=True,
    )


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--kills", type=int, help="stop after so many")
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--case", type=int, help="run one case only")
    parser.add_argument("--only", action="append", help="a kind; may be given several times")
    parser.add_argument("--lane", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.seed is None:
        given.seed = random.randrange(10**6)
    if given.kills is not None and "--minutes" not in (arguments or sys.argv):
        given.minutes = 24 * 60.0
    return given


def main(arguments: list[str] | None = None) -> int:
    given = parsed(arguments)
    if given.lane is not None:
        lane(given)
        return 0
    if given.case is not None:
        print(json.dumps(run_case(given.seed, given.case, given.only), indent=1))
        return 0
    tally, since, told = Tally(), time.monotonic(), time.monotonic()
    for report in reports(given):
        tally.add(report)
        if report["failure"]:
            print(json.dumps(report, indent=1), flush=True)
            again = f"--seed {given.seed} --case {report['case']}"
            again += "".join(f" --only={name}" for name in given.only or ())
            print(f"again: python -m tests.soak.kill_campaign {again}", flush=True)
        if time.monotonic() - told > 60:
            told = time.monotonic()
            tell(tally, given.seed, since)
        if given.kills is not None and sum(tally.kills.values()) >= given.kills:
            break
    tell(tally, given.seed, since)
    return 1 if tally.failures else 0


if __name__ == "__main__":
    sys.exit(main())
