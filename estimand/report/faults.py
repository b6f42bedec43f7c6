"""What went wrong in a training, as far as its model_dir tells."""

from __future__ import annotations

import math
from dataclasses import dataclass

from estimand.report.history import Curve, History


@dataclass(frozen=True)
class Fault:
    step: int
    what: str


def found(item: History) -> list[Fault]:
    """In the order of steps."""
    return sorted(
        [*_broken_off(item), *_not_finite(item), *_damaged(item)], key=lambda fault: fault.step
    )


def _broken_off(item: History) -> list[Fault]:
    """A process that ends by itself saves its last step; one that is killed leaves some undone."""
    faults = [
        Fault(
            start.reached,
            f"it was broken off: resumed at step {start.step:,}, so that at least "
            f"{start.reached - start.step + 1:,} steps were made again",
        )
        for start in item.starts[1:]
        if start.reached >= start.step
    ]
    if item.checkpoints and item.checkpoints[-1].is_last_of_a_call is False:
        last = item.checkpoints[-1].step
        faults.append(Fault(last, "the last call of train is still running, or was broken off"))
    return faults


def _not_finite(item: History) -> list[Fault]:
    curves = {tag: curve for tag, curve in item.training.items()}
    for name, of_evaluation in item.evaluations.items():
        where = f"eval_{name}" if name else "eval"
        curves |= {f"{where}/{tag}": curve for tag, curve in of_evaluation.items()}
    return [
        Fault(step, f"{tag} became {value}")
        for tag, curve in curves.items()
        for step, value in _first_not_finite(curve)
    ]


def _first_not_finite(curve: Curve) -> list[tuple[int, float]]:
    pairs = zip(curve.steps, curve.values, strict=True)
    return [(step, value) for step, value in pairs if not math.isfinite(value)][:1]


def _damaged(item: History) -> list[Fault]:
    return [
        Fault(checkpoint.step, f"{checkpoint.name} cannot be used: {checkpoint.problem}")
        for checkpoint in item.checkpoints
        if checkpoint.problem is not None
    ]
