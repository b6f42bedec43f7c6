"""The value that a variable began with, noted on it where a model runs eagerly.

The first step is taken back so that hooks see the start; what v1 code writes later begins there.
"""

from __future__ import annotations

from typing import Any

_ATTRIBUTE = "_estimand_first_value"


def note_first_value(variable: Any, value: Any = None) -> None:
    """By default the value now, which shares its memory with the variable until an update."""
    setattr(variable, _ATTRIBUTE, variable.read_value() if value is None else value)


def first_value(variable: Any) -> Any:
    """None: nobody noted one."""
    return getattr(variable, _ATTRIBUTE, None)
