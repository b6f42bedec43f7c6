"""Params as they are noted in model_dir, to compare runs by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

_LONGEST = 100  # list or word: data is none of it


def noted(params: Any) -> dict[str, Any] | None:
    """Numbers, words, short lists of these, and dicts; whatever else there is, is left out.

    >>> noted({"units": (8, 4), "adam": {"rate": 0.1}, "table": np.zeros(3), "loss": abs})
    {'units': [8, 4], 'adam': {'rate': 0.1}}
    """
    if hasattr(params, "to_json") and callable(getattr(params, "values", None)):
        params = params.values()  # hyperparameters
    if not isinstance(params, Mapping):
        return None
    entries = {str(name): _short(value) for name, value in params.items()}
    return {name: value for name, value in entries.items() if value is not None} or None


def _short(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str):
        return value if len(value) <= _LONGEST else None
    if isinstance(value, bool | int | float):
        return value
    if isinstance(value, list | tuple) and len(value) <= _LONGEST:
        parts = [_short(part) for part in value]
        return None if None in parts else parts
    return noted(value)
