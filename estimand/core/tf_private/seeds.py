"""Global seeds."""

from __future__ import annotations

import contextlib
import inspect
import random
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any

# Executors, eager mode under `disable_eager_execution()`.
from tensorflow.python.eager import context as _context

# Which seeds an op gets: see `explicit_seeds_stand`.
from tensorflow.python.framework import random_seed as _random_seed

from estimand.core.interpreter.swapping import swapped


def seed_keeping_kernels(seed: int) -> None:
    """Seed what is built from now on, as `tf.random.set_seed` does, but keep compiled kernels.

    `tf.random.set_seed` drops the kernels of all functions, so that random ones start over; each
    function would be optimized and compiled anew at its next call.
    """
    context = _context.context()
    context._seed = seed
    context._rng = random.Random(seed)


@contextlib.contextmanager
def global_seed_restored() -> Iterator[None]:
    """Give the program back, afterwards, the global seed it has now; there is no public getter."""
    context = _context.context()
    seed, generator = context._seed, getattr(context, "_rng", None)  # made with the first seed
    try:
        yield
    finally:
        context._seed, context._rng = seed, generator


_explicit_seeds = threading.local()
_seeds = threading.local()


@contextlib.contextmanager
def explicit_seeds_stand() -> Iterator[None]:
    """Let the seed that a user gave to an op count as if no global seed were set.

    A global seed that we drew, to be able to repeat it in a resumed run, would otherwise mix
    into `shuffle(seed=3)` or `random_normal_initializer(seed=1)`, which users write to get the
    same values in every run. TensorFlow has no public way to seed only what has no seed.
    """
    original = _random_seed.get_seed
    if not hasattr(original, "_estimand"):

        def get_seed(op_seed: int | None) -> tuple[int | None, int | None]:
            if op_seed is not None and getattr(_explicit_seeds, "depth", False):
                return _random_seed.DEFAULT_GRAPH_SEED, op_seed % (2**31 - 1)
            return original(op_seed)

        get_seed._estimand = True  # type: ignore[attr-defined]
        _random_seed.get_seed = get_seed
    _explicit_seeds.depth = getattr(_explicit_seeds, "depth", False) + 1
    try:
        yield
    finally:
        _explicit_seeds.depth -= 1


@contextlib.contextmanager
def seeds_of_step(seed: int) -> Iterator[None]:
    """Ops that run eagerly inside get the same seeds each time; variables go on in their own.

    TensorFlow draws the seed of each op that has none from one generator, so that what a step
    draws would depend on how many were run before it, and the initial value of a variable on what
    was drawn above it. In a trace only initial values are drawn from it.
    """
    context = _context.context()
    of_variables = context._rng
    before, _seeds.of_variables = getattr(_seeds, "of_variables", None), of_variables
    context._rng = random.Random(seed)
    try:
        yield
    finally:
        context._rng, _seeds.of_variables = of_variables, before


@contextlib.contextmanager
def seeds_of_variables() -> Iterator[None]:
    """Inside of `seeds_of_step`: an initial value is drawn as in a trace."""
    of_variables = getattr(_seeds, "of_variables", None)
    if of_variables is None:
        yield
        return
    context = _context.context()
    of_step, context._rng, _seeds.of_variables = context._rng, of_variables, None
    try:
        yield
    finally:
        context._rng, _seeds.of_variables = of_step, of_variables


def step_draws() -> bool:
    """Whether an op that is run now is one of a step, in `seeds_of_step`."""
    return getattr(_seeds, "of_variables", None) is not None


@contextlib.contextmanager
def making_random_ops(kinds: Iterable[str], make: Callable[..., Any]) -> Iterator[None]:
    """Ops of `kinds` are made by `make(kind, original, arguments, seed, seed2)`.

    They have many public names, all of which end in these functions.
    """
    from tensorflow.python.ops import gen_random_ops

    def instead(kind: str) -> Callable[[Any], Any]:
        def of(original: Callable[..., Any]) -> Callable[..., Any]:
            signature = inspect.signature(original)

            def made(*args: Any, **kwargs: Any) -> Any:
                given = signature.bind(*args, **kwargs).arguments
                seed, seed2 = given.pop("seed", 0) or 0, given.pop("seed2", 0) or 0
                return make(kind, original, given, seed, seed2)

            return made

        return of

    with swapped([(gen_random_ops, kind, instead(kind)) for kind in kinds]):
        yield
