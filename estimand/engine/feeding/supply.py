"""What a call of many steps takes its batches from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

# From what the function was called with, and the number of a step, to the batch of that step.
Draw = Callable[[Sequence[Any], tf.Tensor], list[tf.Tensor]]


@dataclass(frozen=True)
class Supply:
    """Batches for up to `steps` steps, the first of which has the number `first`.

    A function that was compiled for one runs on any of the same `form`: it is traced with
    `signature`, called with `values`, and draws its batches from what these have become in it.
    With `by_number` a batch depends on nothing but its number; where it `waits`, on whether there
    is one yet.
    """

    form: str
    signature: Sequence[Any]
    values: Sequence[tf.Tensor]
    draw: Draw
    steps: int
    first: int = 0
    by_number: bool = False
    waits: bool = False


def repeating(batch: Sequence[tf.Tensor], steps: int) -> Supply:
    """The same batch in every step."""
    return Supply("one batch", list(batch), list(batch), lambda given, _: list(given), steps)
