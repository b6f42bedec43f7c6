"""What of the zoo runs with every `make test`; the rest is for `check_everything`."""

from __future__ import annotations

import random
from pathlib import Path

from tests.differential import comparing
from tests.differential.zoo import PROGRAMS

# A step of it that hooks look at never returns in plain blocks; the reason is not known yet.
HANGS = {"piecewise_rate"}


def names(*styles: str) -> list[str]:
    found = [name for name, program in PROGRAMS.items() if program.style in styles]
    return [name for name in found if name not in HANGS]


def check(name: str, folder: Path) -> None:
    """One program in a mode that is its own: looked at, interrupted, resumed; and undisturbed."""
    chance = random.Random(name)
    mode = chance.choice([*comparing.modes(), comparing.EAGER])
    program = PROGRAMS[name]
    if mode == comparing.EAGER and not program.eager:
        mode = comparing.PLAIN
    comparing.check_mode(program, folder, mode, chance)
