"""What of the zoo runs with `make full`; the rest is for `check_everything`."""

from __future__ import annotations

import random
from pathlib import Path

from tests.differential import comparing
from tests.differential.zoo import PROGRAMS


def names(*styles: str) -> list[str]:
    return [name for name, program in PROGRAMS.items() if program.style in styles]


def check(name: str, folder: Path) -> None:
    """One program in a mode that is its own: looked at, interrupted, resumed; and undisturbed."""
    chance = random.Random(name)
    mode = chance.choice([*comparing.modes(), comparing.EAGER])
    program = PROGRAMS[name]
    if mode == comparing.EAGER and not program.eager:
        mode = comparing.PLAIN
    comparing.check_mode(program, folder, mode, chance)
