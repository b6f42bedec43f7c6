"""What v1 code writes while a model function runs eagerly: when it is asked for, as in a graph.

In a graph `variable.assign(...)` and `optimizer.minimize(loss)` write nothing: they make ops, and
only those are run that the train_op depends on. Eagerly they would write at once: an op that
nobody returns would train, and whatever reads a variable below it would see the next step's
value. So in a model function they are kept until something asks for them: the train_op,
`tf.control_dependencies`, or whoever uses the value after the assignment.

Keras code relies on program order, and writes at once in both.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.core.first_values import first_value

_local = threading.local()

_READ_VALUE = 3  # where this argument stands in `assign` and its kin


class Later:
    """An op that is run once, when something asks for it."""

    def __init__(self, run: Callable[[], Any], name: str = "later") -> None:
        self._run: Callable[[], Any] | None = run
        self.name = name
        self.graph = tf.compat.v1.get_default_graph()

    @property
    def op(self) -> Later:
        return self

    @property
    def done(self) -> bool:
        return self._run is None

    def __call__(self) -> None:
        """Run it. TensorFlow, too, calls control inputs that can be called in eager mode."""
        run, self._run = self._run, None
        if run is not None:
            with at_once():
                run()

    def __repr__(self) -> str:
        return f"<an operation of model_fn, {self.name!r}>"


@dataclass
class Writes:
    """What one call of a model function has written so far."""

    training: bool
    at_start: Mapping[int, tf.Tensor]  # what variables held before, by their identity
    laters: list[Later] = field(default_factory=list)
    depth_at_once: int = 0

    def keep(self, run: Callable[[], Any], name: str) -> Later:
        later = Later(run, name)
        self.laters.append(later)
        return later

    def value_at_start(self, variable: tf.Variable) -> tf.Tensor:
        return value_before(variable, self.at_start)


def value_before(variable: tf.Variable, at_start: Mapping[int, tf.Tensor]) -> tf.Tensor:
    """What a variable held before a step; one that was made in it, what it was made with."""
    value = at_start.get(id(variable), first_value(variable))
    return variable.read_value() if value is None else value


@contextlib.contextmanager
def kept_until_asked_for(training: bool, at_start: Mapping[int, tf.Tensor]) -> Iterator[Writes]:
    """Around a model function that runs eagerly."""
    before = getattr(_local, "writes", None)
    _local.writes = Writes(training, at_start)
    try:
        yield _local.writes
    finally:
        _local.writes = before


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """Inside, writes are done where they stand."""
    writes = getattr(_local, "writes", None)
    if writes is None:
        yield
        return
    writes.depth_at_once += 1
    try:
        yield
    finally:
        writes.depth_at_once -= 1


def under_way() -> Writes | None:
    """The call of a model function that is run eagerly, in this thread, and is not in a graph."""
    return getattr(_local, "writes", None) if tf.executing_eagerly() else None


def keeping() -> Writes | None:
    """The same, where writes are kept until they are asked for."""
    writes = under_way()
    return None if writes is None or writes.depth_at_once else writes


def later_of(value: Any) -> Later | None:
    """The op that a value stands for, if it has been kept."""
    if isinstance(value, Later):
        return value
    op = tf_private.op_before_read(value)
    return op if isinstance(op, Later) else None


def all_of(values: Any) -> list[Later]:
    return [later for v in tf.nest.flatten(values) if (later := later_of(v)) is not None]


def ask_for(values: Any) -> None:
    for later in all_of(values):
        later()


def grouped(values: Any, name: str = "group") -> Later | None:
    """One op for those among `values` that have been kept; None if there are none."""
    laters, writes = all_of(values), keeping()
    return writes.keep(lambda: ask_for(laters), name) if writes and laters else None


def write(
    writes: Writes,
    variable: tf.Variable,
    name: str,
    original: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Keep a call of a variable's method; what is returned stands for the value after it."""
    args = (_as_it_is_now(args[0]), *args[1:]) if args else args
    later = writes.keep(functools.partial(original, *args, **kwargs), f"{variable.name}/{name}")
    wanted = kwargs.get("read_value", args[_READ_VALUE] if len(args) > _READ_VALUE else True)
    return tf_private.read_after(variable, later) if wanted else later


def _as_it_is_now(value: Any) -> Any:
    """A variable is read where it stands, not when the assignment is asked for."""
    plain = isinstance(value, tf.Variable) and later_of(value) is None
    return value.read_value() if plain else value
