"""Makes programs up, and runs each in several ways that have to agree.

    python -m tests.differential.generate --minutes 10 --seed 3

What fails is shrunk to the smallest program that fails, and kept in `kept`, where `test_kept`
finds it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import random
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

Description = dict[str, Any]
KEPT = Path(__file__).parent / "kept"
_AT_ONCE = 10  # programs, then a line is printed
_SHRINKING_SECONDS = 240.0


@dataclass
class Search:
    """Programs that were compared, and what came out."""

    end: float
    agreed: set[str] = field(default_factory=set)  # descriptions, also of searches before
    compared: int = 0
    faults: int = 0
    failed: dict[str, str] = field(default_factory=dict)  # by description: how
    shrinks_until: float | None = None

    def smallest(self) -> tuple[str, str]:
        """The shortest description that failed, and how."""
        return min(self.failed.items(), key=lambda one: len(one[0]))

    def check(self, description: Description) -> None:
        from tests.differential.comparing import Differs

        text = json.dumps(description, sort_keys=True)
        if text in self.agreed:
            return  # each search begins with the smallest program
        if text not in self.failed and time.monotonic() < (self.shrinks_until or self.end):
            try:
                check_some(description)
            except Exception as error:
                self.failed[text] = f"{type(error).__name__}: {error}"
                self.shrinks_until = self.shrinks_until or time.monotonic() + _SHRINKING_SECONDS
            else:
                self.agreed.add(text)
                self.compared += 1
                self.faults += description["fault"] is not None
        if text in self.failed:  # raised in one place: hypothesis tells failures apart by it
            raise Differs(self.failed[text])


def check_some(description: Description) -> None:
    """One way with looks and an interruption, compared with another way that nothing disturbs."""
    from tests.differential import comparing, grammar

    program = grammar.program_of(description)
    chance = random.Random(description["seed"])
    ways = [*comparing.modes(), comparing.EAGER]
    mode = chance.choice(ways)
    others = [way for way in ways if way != mode]
    folder = Path(tempfile.mkdtemp(prefix="estimand-generated-"))
    try:
        if program.fails is not None:
            for way in (mode, chance.choice(others)):
                comparing.must_fail(program, folder / way, comparing.Way(way, saves_every=7))
            return
        end = comparing.check_mode(program, folder / mode, mode, chance)
        eagerly_others = program.random or program.branches
        if eagerly_others and mode != comparing.EAGER:
            others.remove(comparing.EAGER)
        if not (eagerly_others and mode == comparing.EAGER):
            other = chance.choice(others)
            seen = comparing.run(program, folder / f"other-{other}", comparing.Way(other))
            comparing.assert_close(seen, end, program, f"{mode} against {other}")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def search(seed: int, count: int, found: Search) -> None:
    """Compare so many programs; raises what the smallest failing one raises."""
    import hypothesis

    from tests.differential.grammar import descriptions

    @hypothesis.seed(seed)
    @hypothesis.settings(
        max_examples=count,
        database=None,
        deadline=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @hypothesis.given(descriptions())
    def programs(description: Description) -> None:
        found.check(description)

    programs()


def keep(description: str, how: str, folder: Path = KEPT) -> Path:
    """Write what failed to where it is tried again with every test."""
    folder.mkdir(exist_ok=True)
    path = folder / f"{hashlib.sha256(description.encode()).hexdigest()[:10]}.json"
    document = {"description": json.loads(description), "failed": how[:1000]}
    path.write_text(json.dumps(document, indent=1) + "\n")
    return path


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args(arguments)
    seed = random.randrange(10**6) if given.seed is None else given.seed
    logging.getLogger("tensorflow").setLevel(logging.ERROR)
    since = time.monotonic()
    end, compared, faults, failures, turn = since + 60 * given.minutes, 0, 0, 0, 0
    agreed: set[str] = set()
    while time.monotonic() < end:
        found = Search(end, agreed)
        try:
            search(1000 * seed + turn, _AT_ONCE, found)
        except Exception as error:
            if not found.failed:
                raise
            failures += 1
            print(f"{error}\nkept: {keep(*found.smallest())}", flush=True)
        compared, faults, turn = compared + found.compared, faults + found.faults, turn + 1
        print(
            f"seed {seed}: {compared} programs compared, {faults} of them with faults, "
            f"{failures} failures, {(time.monotonic() - since) / 60:.1f} min",
            flush=True,
        )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
