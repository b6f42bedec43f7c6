"""Where a variable is: here, in a copy on each replica, or in the memory of a parameter server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any

import tensorflow as tf

_current: ContextVar[int] = ContextVar("replica", default=0)


def current_replica() -> int:
    """Which replica of this process the model function is being called for."""
    return _current.get()


@contextlib.contextmanager
def as_replica(number: int) -> Iterator[None]:
    """Inside, the model function is called for that replica."""
    token = _current.set(number)
    try:
        yield
    finally:
        _current.reset(token)


def copies(variable: tf.Variable) -> list[Any]:
    """The copies of a variable on the replicas of this process; a plain one is its own."""
    strategy = getattr(variable, "distribute_strategy", None)
    if strategy is None or not isinstance(variable, tf.distribute.DistributedValues):
        return [variable]
    return list(strategy.experimental_local_results(variable))


def own_copy(variable: tf.Variable) -> Any:
    """This replica's copy of a variable, to be updated as all the others are."""
    return copies(variable)[current_replica()]


def on_server(kept: tf.Variable | tf.Tensor) -> bool:
    """Whether a variable, or a tensor, is in the memory of a parameter server."""
    return "/job:ps" in (kept.device or "")
