"""The tests on every version of Python and TensorFlow that pyproject.toml promises.

`make matrix`: each pair in an environment of its own, in `.matrix/`. Every Python runs with the
newest TensorFlow, every other TensorFlow with the first Python that can have it; with `--all`, all
pairs. What is not to be had here is named, with the reason, and is no failure. `--only 3.13` or
`--only 2.20` chooses; what follows `--` goes to pytest.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

REPOSITORY = Path(__file__).resolve().parents[1]
FOLDER = REPOSITORY / ".matrix"
_USUAL = ["-n", "3", "--dist", "loadfile", "--no-loadscope-reorder"]


@dataclass(frozen=True)
class Pair:
    python: str
    tensorflow: str

    @property
    def name(self) -> str:
        return f"Python {self.python}, TensorFlow {self.tensorflow}"

    @property
    def folder(self) -> Path:
        return FOLDER / f"python{self.python}-tensorflow{self.tensorflow}"


def promised() -> tuple[list[str], list[str]]:
    """The versions of Python and of TensorFlow, the oldest first.

    >>> promised()[0][0]
    '3.11'
    """
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    tensorflow = next(d for d in project["dependencies"] if d.startswith("tensorflow>"))
    return _minors(project["requires-python"]), _minors(tensorflow.removeprefix("tensorflow"))


def _minors(bounds: str) -> list[str]:
    """
    >>> _minors(">=3.11,<3.14")
    ['3.11', '3.12', '3.13']
    """
    low, high = re.fullmatch(r">=(\d+\.\d+),<(\d+\.\d+)", bounds.replace(" ", "")).groups()
    major, first = low.split(".")
    return [f"{major}.{minor}" for minor in range(int(first), int(high.split(".")[1]))]


def pairs(everything: bool) -> Iterator[tuple[Pair, bool]]:
    """With whether it is left out once another one with the same TensorFlow has run."""
    pythons, tensorflows = promised()
    *older, newest = tensorflows
    for python in pythons:
        yield Pair(python, newest), False
    for tensorflow in reversed(older):
        for python in pythons:
            yield Pair(python, tensorflow), not everything


def interpreter(version: str) -> str | None:
    """On the PATH, or one that pyenv has."""
    found = [shutil.which(f"python{version}"), sys.executable]
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    found += map(str, sorted(root.glob(f"versions/{version}.*/bin/python"), reverse=True))
    for one in filter(None, found):
        asked = "import sys; print('%d.%d' % sys.version_info[:2])"
        done = subprocess.run([one, "-c", asked], capture_output=True, text=True, check=False)
        if done.stdout.strip() == version:
            return one
    return None


def prepared(pair: Pair) -> tuple[Path | None, str]:
    """The environment's interpreter, or why there is none."""
    python = interpreter(pair.python)
    if python is None:
        return None, f"no python{pair.python} on the PATH or in pyenv"
    made, ready = pair.folder / "bin" / "python", pair.folder / "ready"
    project = REPOSITORY / "pyproject.toml"
    if ready.exists() and ready.stat().st_mtime > project.stat().st_mtime:
        return made, ""
    print(f"{pair.name}: installing ...", flush=True)
    subprocess.run([python, "-m", "venv", "--clear", str(pair.folder)], check=True)
    install = [str(made), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    wanted = [f"tensorflow=={pair.tensorflow}.*", "--editable", f"{REPOSITORY}[dev]"]
    done = subprocess.run([*install, *wanted], capture_output=True, text=True, check=False)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR:")]
        return None, (lines or ["ERROR: pip failed"])[0].removeprefix("ERROR: ")[:200]
    ready.touch()
    return made, ""


def run(pair: Pair, python: Path, arguments: list[str]) -> tuple[bool, str]:
    report, log = pair.folder / "report.xml", pair.folder / "log"
    print(f"{pair.name}: running the tests, see {log.relative_to(REPOSITORY)} ...", flush=True)
    command = [str(python), "-m", "pytest", f"--junitxml={report}", *_USUAL, *arguments]
    with log.open("w") as file:
        done = subprocess.run(
            command, cwd=REPOSITORY, stdout=file, stderr=subprocess.STDOUT, check=False
        )
    return done.returncode == 0, _counts(report)


def _counts(report: Path) -> str:
    try:
        told = ElementTree.parse(report).getroot().find("testsuite").attrib
    except (OSError, ElementTree.ParseError, AttributeError):
        return "the tests could not be run"
    failed = int(told["failures"]) + int(told["errors"])
    passed = int(told["tests"]) - failed - int(told["skipped"])
    return (
        f"{passed} passed, {failed} failed, {told['skipped']} skipped, {float(told['time']):.0f} s"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("arguments", nargs="*")
    given = parser.parse_args()
    lines, failed, seen = [], False, set()
    for pair, is_spare in pairs(given.all):
        chosen = all(one in (pair.python, pair.tensorflow) for one in given.only)
        if not chosen or (is_spare and pair.tensorflow in seen):
            continue
        python, reason = prepared(pair)
        if python is None:
            lines.append(f"{pair.name}: not here: {reason}")
        else:
            seen.add(pair.tensorflow)
            passed, counts = run(pair, python, given.arguments)
            failed |= not passed
            lines.append(f"{pair.name}: {'passed' if passed else 'FAILED'}: {counts}")
        print(lines[-1], flush=True)
    print("", *lines, sep="\n")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
