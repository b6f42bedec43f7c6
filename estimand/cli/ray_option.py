"""`--ray[=ADDRESS]`: what commands share that can let a Ray cluster do the work."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click


def _checked(context: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
    """`--ray program.py` would take the program for an address."""
    if value is not None and os.path.exists(value):
        raise click.BadParameter(
            f"{value!r} is a file, not the address of a Ray cluster. Write --ray=local for a "
            "cluster of this machine, --ray=auto for the one that it is part of."
        )
    return value


def ray_option(what: str) -> Callable[[Any], Any]:
    return click.option(
        "--ray",
        is_flag=False,
        flag_value="local",
        metavar="[=ADDRESS]",
        callback=_checked,
        help=f"{what} on a Ray cluster; without an address, one of this machine.",
    )
