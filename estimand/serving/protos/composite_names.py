"""Sparse and ragged tensors in requests: the protocol has none, so each goes as several arrays.

>>> part_names("ids", "sparse", 3)
('ids/indices', 'ids/values', 'ids/dense_shape')
>>> part_names("ids", "ragged", 2)
('ids/values', 'ids/row_splits')
"""

from __future__ import annotations

_SPARSE = ("indices", "values", "dense_shape")


def part_names(name: str, kind: str | None, count: int) -> tuple[str, ...]:
    """The names of the arrays that an input or output consists of, in the signature's order."""
    if kind is None:
        return (name,)
    if kind == "sparse":
        return tuple(f"{name}/{part}" for part in _SPARSE)
    splits = ["row_splits", *(f"row_splits_{level}" for level in range(1, count - 1))]
    return tuple(f"{name}/{part}" for part in ("values", *splits))[:count]
