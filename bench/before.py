"""Another revision of Estimand as a peer of this one, in the same race.

Each contestant of the project gets a twin that imports the package of that revision; only values
of the same round are compared, as with all peers.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace

import environments
import report
from race import Round
from workload import BEFORE, Contestant, Workload


@contextlib.contextmanager
def checked_out(revision: str | None) -> Iterator[str | None]:
    """A folder with the files of `revision`; None without one."""
    if revision is None:
        yield None
        return
    root = environments.BENCH.parent
    with tempfile.TemporaryDirectory(prefix="bench-before-") as folder:
        git = ["git", "-C", str(root), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", folder, revision], check=True)
        try:
            yield folder
        finally:
            subprocess.run([*git, "remove", "--force", folder], check=True)


def with_twins(contestants: Sequence[Contestant], folder: str) -> list[Contestant]:
    """The project's own contestants, each beside itself at the other revision."""
    ours = [c for c in contestants if c.environment == environments.PROJECT]
    twins = [
        replace(c, name=c.name + BEFORE, variables={**c.variables, "PYTHONPATH": folder})
        for c in ours
    ]
    return [*ours, *twins]


def table(rounds: Sequence[Round], workload: Workload) -> list[list[str]]:
    """One row for each contestant and measure: now against before."""
    rows = []
    for measure in report.measured(workload, rounds):
        for contestant in workload.contestants:
            ratio = report.ratio_of(rounds, measure, contestant.name, contestant.name + BEFORE)
            if ratio is not None:
                title = f"{contestant.name}{', ' + measure.title if measure.title else ''}"
                rows.append([title, report.ratio_text(ratio, measure)])
    return [["now against before", "ratio"], *rows] if rows else []
