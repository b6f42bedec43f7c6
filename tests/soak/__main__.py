"""`make soak`: what goes on proving, for as long as asked, that nothing changes what programs do.

Half of the time processes are killed (`kill_campaign`), half of it programs are made up and run in
all ways there are (`tests.differential.generate`).
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys

PARTS = ("tests.soak.kill_campaign", "tests.differential.generate")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int)
    given = parser.parse_args()
    parts = [part for part in PARTS if importlib.util.find_spec(part) is not None]
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
