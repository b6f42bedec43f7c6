"""`make fuzz MINUTES=n`: damaged and meaningless input of five kinds, without and with sockets.

Half of the time each kind is given to the code that reads it, in a process of its own: hundreds of
inputs a millisecond long, guided by the code they reach if atheris is there. In the other half
attackers send all kinds at once to a server, while bystanders ask it and check what they get.

It fails if a process ends, an input does what none may do, a bystander gets a wrong answer or none
within `watching.WAIT` seconds, or memory grows.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from tests.serving.fuzz.changing import CORPUS

REPOSITORY = Path(__file__).resolve().parents[3]
KINDS = ("grpc", "http2", "http1", "json", "config")
_START_SECONDS = 120.0  # that a process may take beyond its time, to begin and to end
_AT_A_TIME = 2


def inside(kind: str, seconds: float, python: str, out: Path, seed: int) -> dict[str, Any]:
    """Its figures; `ended` tells what is wrong with how the process ended."""
    file = out / f"{kind}.json"
    command = [python, "-m", "tests.serving.fuzz.inside", kind, f"--seconds={seconds}"]
    log = out / f"{kind}.log"
    with log.open("w") as told:
        try:
            code = subprocess.run(
                [*command, f"--out={file}", f"--seed={seed}", f"--models={out / 'models'}"],
                cwd=REPOSITORY,
                env=_environment(),
                stdout=told,
                stderr=subprocess.STDOUT,
                timeout=seconds + _START_SECONDS,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            code = -9
    figures = json.loads(file.read_text()) if file.exists() else {"kind": kind, "inputs": 0}
    figures["ended"] = "" if code == 0 else f"ended with {code}, see {log}"
    return figures


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), "TF_CPP_MIN_LOG_LEVEL": "3"}


def run_inside(given: argparse.Namespace, out: Path, seconds: float) -> bool:
    from tests.serving.fuzz.world import write_models

    write_models(out / "models")
    each = seconds * min(_AT_A_TIME, len(given.only)) / len(given.only)
    print(f"Without sockets, {each:.0f} s each:", flush=True)
    with ThreadPoolExecutor(_AT_A_TIME) as pool:
        asked = [
            pool.submit(inside, kind, each, given.python, out, given.seed) for kind in given.only
        ]
        found = [one.result() for one in asked]
    for one in found:
        print(_line(one), flush=True)
        if one["ended"]:
            print(f"    {one['ended']}")
    print(f"  together {sum(one['inputs'] for one in found):,} inputs", flush=True)
    return all(
        one["inputs"] and not one["ended"] and not one["findings"] and not one["grew"]
        for one in found
    )


def _line(one: dict[str, Any]) -> str:
    if not one["inputs"]:
        return f"  {one['kind']:7} no inputs"
    how = "guided" if one["guided"] else "at random"
    return (
        f"  {one['kind']:7}{one['inputs']:>10,} inputs {how}, {one['findings']} findings; the "
        f"slowest {one['slowest_ms']} ms ({one['slowest_bytes']} bytes); "
        f"{one['early_mb']} MB at a third, {one['mb']} MB at the end"
    )


def run_sockets(given: argparse.Namespace, out: Path, seconds: float) -> bool:
    from tests.serving.fuzz.sockets import attacked

    return attacked(given.only, seconds, out, given.seed)


def keep(kinds: tuple[str, ...], out: Path) -> None:
    """Of what was found, as few as go the same ways, into the corpus."""
    for kind in kinds:
        found = out / "corpus" / kind
        if found.exists():
            command = [sys.executable, "-m", "tests.serving.fuzz.keeping", kind, str(found)]
            command.append(f"--models={out / 'models'}")
            subprocess.run(command, cwd=REPOSITORY, env=_environment(), check=True)


def guided_python(folder: Path) -> str:
    """An interpreter with all that this one has, and atheris; this one, if that cannot be had."""
    made = folder / "bin" / "python"
    if not (folder / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        install = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "atheris")
        if subprocess.run([str(made), *install], check=False).returncode:
            print("atheris cannot be installed: inputs are made at random, and not guided.")
            return sys.executable
        (site,) = folder.glob("lib/python*/site-packages")
        (site / "estimand.pth").write_text(sysconfig.get_path("purelib"))
        (folder / "ready").touch()
    return str(made)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--mode", choices=["inside", "sockets"], action="append")
    parser.add_argument("--only", choices=KINDS, action="append")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--keep", action="store_true", help="add to the corpus what was found")
    given = parser.parse_args()
    given.only = tuple(given.only or KINDS)
    given.python = guided_python(REPOSITORY / ".fuzz")
    modes = given.mode or ["inside", "sockets"]
    seconds = given.minutes * 60 / len(modes)
    out = Path(tempfile.mkdtemp(prefix="estimand-fuzz-"))
    is_good = True
    if "inside" in modes:
        is_good &= run_inside(given, out, seconds)
        if given.keep:
            keep(given.only, out)
    if "sockets" in modes:
        is_good &= run_sockets(given, out, seconds)
    if is_good:
        shutil.rmtree(out)
        print("Nothing was found.")
        return 0
    where = CORPUS.relative_to(REPOSITORY)
    print(f"FAILED: see {out}. An input that shows what is wrong belongs into {where}.")
    return 1


if __name__ == "__main__":
    sys.exit(main())
