"""The results of an evaluation as a person wants to read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GLOBAL_STEP = "global_step"
LOSS = "loss"
# What heads add for comparison: told after everything else.
_IN_THE_BACKGROUND = ("average_loss", "accuracy_baseline", "label/mean", "prediction/mean")


def by_importance(results: Mapping[str, Any]) -> list[str]:
    """The names of the numbers: the loss, what the head and the user measure, the background.

    >>> by_importance({"label/mean": 0.5, "accuracy": 0.9, "auc": 0.8, "loss": 0.1})
    ['loss', 'accuracy', 'auc', 'label/mean']
    """
    names = [name for name in results if name != GLOBAL_STEP and is_number(results[name])]

    def rank(name: str) -> int:
        return 0 if name == LOSS else 2 if _is_in_the_background(name) else 1

    return sorted(names, key=rank)  # which keeps the order of equals


def _is_in_the_background(name: str) -> bool:
    # With several heads, the name of the head follows: accuracy/clicks.
    return name.startswith(_IN_THE_BACKGROUND)


def foreground(results: Mapping[str, Any]) -> dict[str, Any]:
    """What a model is judged by.

    >>> foreground({"label/mean": 0.5, "accuracy": 0.9, "loss": 0.1})
    {'accuracy': 0.9, 'loss': 0.1}
    """
    return {name: value for name, value in results.items() if not _is_in_the_background(name)}


def in_order(results: Mapping[str, Any]) -> dict[str, Any]:
    """All of them: numbers by importance, then the rest, and last the step.

    >>> list(in_order({"global_step": 5, "label/mean": 0.5, "accuracy": 0.9, "loss": 0.1}))
    ['loss', 'accuracy', 'label/mean', 'global_step']
    """
    first = by_importance(results)
    rest = [name for name in results if name not in first and name != GLOBAL_STEP]
    last = [GLOBAL_STEP] if GLOBAL_STEP in results else []
    return {name: results[name] for name in (*first, *rest, *last)}


def in_one_line(results: Mapping[str, Any]) -> str:
    """All numbers.

    >>> in_one_line({"accuracy": 0.91234567, "loss": 0.25, "global_step": 500})
    'loss 0.25  accuracy 0.912346'
    """
    return "  ".join(f"{name} {number(results[name])}" for name in by_importance(results))


def is_number(value: Any) -> bool:
    if isinstance(value, (bytes, str)) or value is None:
        return False
    return getattr(value, "shape", ()) == ()


def number(value: Any) -> str:
    return f"{float(value):.6g}" if is_number(value) else ""
