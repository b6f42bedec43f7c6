"""`make corpus`: other people's Estimator code, as published, run by `estimand run`.

Each package is installed into a folder of its own, without its dependencies, beside an
environment that holds Estimand from this tree and Keras 2. Its own tests are run by
`estimand run -m pytest`; where a package is published without tests, a program of `programs/`
uses it as its documentation shows. What comes out is a table, in `results.md` and on the screen.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import venv
import xml.etree.ElementTree as ElementTree
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tests.legacy.corpus.packages import PACKAGES, Package

HERE = Path(__file__).parent
TREE = HERE.parents[2]
_SECONDS = 3600
_PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")


@dataclass(frozen=True)
class Result:
    """How far a package got."""

    package: Package
    passed: int
    total: int
    skipped: int
    walls: tuple[str, ...]  # the reasons of failures, the most frequent first

    def row(self) -> str:
        what = self.package.program or ", ".join(self.package.tests)
        skipped = f" ({self.skipped} skipped)" if self.skipped else ""
        why = "<br>".join(self.walls[:4])
        return (
            f"| {self.package.name} {self.package.version} | {what} | "
            f"{self.passed}/{self.total}{skipped} | {why} |"
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where everything is installed and written")
    parser.add_argument("--only", help="run the packages with this in their name")
    parser.add_argument("--python", type=Path, help="an environment with Estimand, to save time")
    given = parser.parse_args()
    folder = given.folder.resolve()
    chosen = [one for one in PACKAGES if not given.only or given.only in one.name]
    if not chosen:
        parser.error(f"no package has {given.only!r} in its name")
    # Not resolved: an environment is known by the link that its interpreter is.
    python = given.python.absolute() if given.python else _environment(folder / "environment")
    rows = ["| package | what ran | passed | why not |", "| --- | --- | --- | --- |"]
    for package in chosen:
        place = folder / package.name
        _install(python, package, place)
        result = _run(python, package, place)
        rows.append(result.row())
        print(rows[-1], flush=True)
    (folder / "results.md").write_text("\n".join(rows) + "\n")
    return 0


def _environment(folder: Path) -> Path:
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        wanted = [f"{TREE}[keras2]", "pytest", "pytest-timeout", "mock", "scikit-learn", "pandas"]
        subprocess.run([python, *_PIP, *wanted], check=True)
    return python


def _install(python: Path, package: Package, place: Path) -> None:
    if place.exists():
        return
    names = [f"{package.name}=={package.version}", *package.needs]
    subprocess.run([python, *_PIP, "--no-deps", "--target", place, *names], check=True)


def _run(python: Path, package: Package, place: Path) -> Result:
    search = os.pathsep.join([str(TREE), str(place)])
    environment = {**os.environ, "PYTHONPATH": search, "TF_CPP_MIN_LOG_LEVEL": "3"}
    report = place / "report.xml"
    report.unlink(missing_ok=True)
    command = [str(python), "-m", "estimand", "run"]
    if package.keras:
        command.append(f"--keras={package.keras}")
    if package.program:
        command += [str(HERE / "programs" / package.program), str(place / "runs")]
    else:
        command += ["-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout=300"]
        # Not by the settings of this tree, which has doctests in its modules.
        command += ["-c", os.devnull, f"--rootdir={place}", "--continue-on-collection-errors"]
        command += ["-p", "tests.legacy.corpus.flags", f"--junitxml={report}", *package.tests]
    try:
        done = subprocess.run(
            command, cwd=place, env=environment, capture_output=True, text=True, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        return Result(package, 0, 0, 0, (f"did not end within {_SECONDS} seconds",))
    (place / "output.txt").write_text(done.stdout + done.stderr)
    if package.program:
        said = [line for line in done.stderr.splitlines() if line and not line.startswith("(")]
        last = said[-1:] or [""]
        return Result(
            package,
            int(done.returncode == 0),
            1,
            0,
            () if not done.returncode else (last[0][:160],),
        )
    if not report.exists():
        return Result(package, 0, 0, 0, (f"pytest did not start, see {place / 'output.txt'}",))
    return _read(package, report)


def _read(package: Package, report: Path) -> Result:
    cases = list(ElementTree.parse(report).iter("testcase"))
    walls: Counter[str] = Counter()
    skipped = 0
    for case in cases:
        skipped += case.find("skipped") is not None
        for kind in ("failure", "error"):
            for wall in case.findall(kind):
                message = (wall.get("message") or kind).splitlines()[0]
                walls[message[:160].replace("|", "/")] += 1
    failed = sum(walls.values())
    told = tuple(f"{count}x {message}" for message, count in walls.most_common())
    return Result(package, len(cases) - skipped - failed, len(cases) - skipped, skipped, told)


if __name__ == "__main__":
    sys.exit(main())
