"""Cells of CSV files: text that may stand for numbers."""

from __future__ import annotations

import re
from collections.abc import Sequence

from estimand.inputs.records.columns import BYTES, FLOAT, INT64

_WHOLE = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|inf|infinity)", re.IGNORECASE)


def kind_of(cells: Sequence[str]) -> str:
    """What all of them, of which none is empty, can be.

    >>> kind_of(["1", "-2"]), kind_of(["1", "2.5e3"]), kind_of(["1", "?"]), kind_of([])
    ('int64', 'float', 'bytes', 'bytes')
    """
    if cells and all(map(_WHOLE.fullmatch, cells)):
        return INT64
    return FLOAT if cells and all(map(_NUMBER.fullmatch, cells)) else BYTES


def number_in(cell: str, kind: str) -> int | float:
    """The number of this kind; ValueError, which ends a sentence about the column, if none."""
    wanted = _WHOLE if kind == INT64 else _NUMBER
    if not wanted.fullmatch(cell):
        raise ValueError(f"holds {cell[:50]!r}, which is no {kind}")
    return int(cell) if kind == INT64 else float(cell)
