"""`make soak`: what goes on proving, for as long as asked, that nothing changes what programs do.

A third of the time processes are killed (`kill_campaign`), a third of it programs are made up and
run in all ways there are (`tests.differential.generate`), a third of it a server is attacked while
others ask it (`tests.serving.soak`).
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys

PARTS = {
    "kills": "tests.soak.kill_campaign",
    "programs": "tests.differential.generate",
    "server": "tests.serving.soak",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--only", choices=PARTS, nargs="+", default=list(PARTS))
    given = parser.parse_args()
    named = [PARTS[name] for name in given.only]
    parts = [part for part in named if importlib.util.find_spec(part) is not None]
    seed = [] if given.seed is None else ["--seed", str(given.seed)]
    worst = 0
    for part in parts:
        minutes = str(given.minutes / len(parts))
        command = [sys.executable, "-m", part, "--minutes", minutes, *seed]
        print(" ".join(command[1:]), flush=True)
        worst = max(worst, subprocess.call(command))
    return worst


if __name__ == "__main__":
    sys.exit(main())
