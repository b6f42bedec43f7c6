"""Random ops in the bodies of functions, branches and loops, and those of the rarer kinds.

Those that stand in the graph itself are replaced after the trace (`randomness`). One inside of a
body cannot be reached then, and may run several times in a step, or not at all. So while a model
function is traced, such ops are made stateless from the start: keyed by the count of steps, and by
how often this op has run within the step.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimand.core import tf_private
from estimand.engine.tracing.randomness import ALGORITHM, Draws, stream

_Make = Callable[..., tf.Tensor]


def _of_shape(op: Callable[..., tf.Tensor]) -> _Make:
    def make(seeds: tf.Tensor, shape: Any, dtype: Any) -> tf.Tensor:
        key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=seeds)
        return op(shape=shape, key=key, counter=counter, alg=ALGORITHM, dtype=dtype)

    return make


def _integers(seeds: tf.Tensor, shape: Any, minval: Any, maxval: Any) -> tf.Tensor:
    key, counter = tf.raw_ops.StatelessRandomGetKeyCounter(seed=seeds)
    return tf.raw_ops.StatelessRandomUniformIntV2(
        shape=shape, key=key, counter=counter, alg=ALGORITHM, minval=minval, maxval=maxval
    )


def _categories(
    seeds: tf.Tensor, logits: Any, num_samples: Any, output_dtype: Any = tf.int64
) -> tf.Tensor:
    return tf.raw_ops.StatelessMultinomial(
        logits=logits, num_samples=num_samples, seed=seeds, output_dtype=output_dtype
    )


def _gamma(seeds: tf.Tensor, shape: Any, alpha: Any) -> tf.Tensor:
    # Which gives a number for each element of alpha in each place of the shape.
    whole = tf.concat([tf.cast(shape, tf.int32), tf.shape(alpha)], 0)
    return tf.random.stateless_gamma(whole, seeds, alpha, dtype=tf.convert_to_tensor(alpha).dtype)


def _poisson(seeds: tf.Tensor, shape: Any, rate: Any, dtype: Any = tf.int64) -> tf.Tensor:
    whole = tf.concat([tf.cast(shape, tf.int32), tf.shape(rate)], 0)
    return tf.random.stateless_poisson(whole, seeds, rate, dtype=dtype)


def _shuffle(seeds: tf.Tensor, value: Any) -> tf.Tensor:
    # No gradient passes the original. The twin has none to ask for: what comes back stops after it.
    return tf.stop_gradient(tf.random.experimental.stateless_shuffle(value, seeds))


# By the names of the functions that make the stateful ones.
_STATELESS: dict[str, _Make] = {
    "random_uniform": _of_shape(tf.raw_ops.StatelessRandomUniformV2),
    "random_standard_normal": _of_shape(tf.raw_ops.StatelessRandomNormalV2),
    "truncated_normal": _of_shape(tf.raw_ops.StatelessTruncatedNormalV2),
    "random_uniform_int": _integers,
    "multinomial": _categories,
    "random_gamma": _gamma,
    "random_poisson_v2": _poisson,
    "random_shuffle": _shuffle,
}
_REPLACED_LATER = frozenset(
    {"random_uniform", "random_standard_normal", "truncated_normal", "random_uniform_int"}
)


def keyed_by(draws: Draws, graph: tf.Graph, worker: int) -> contextlib.AbstractContextManager[None]:
    """While `graph` is traced: random ops in bodies that are built inside of it follow `draws`.

    Around a model function that runs eagerly (see `tf_private.seeds_of_step`): all of its own.
    """
    numbers = itertools.count(1)

    def make(
        kind: str, original: Callable[..., Any], args: dict[str, Any], seed: int, seed2: int
    ) -> Any:
        here = tf.compat.v1.get_default_graph()
        at_top = here is graph
        eagerly = tf.executing_eagerly()
        initial = eagerly and not tf_private.step_draws()  # the value of a variable
        if initial or (not eagerly and at_top and kind in _REPLACED_LATER):
            return original(**args, seed=seed, seed2=seed2)
        if not at_top and not _is_body(here, graph):
            return original(**args, seed=seed, seed2=seed2)
        name = args.pop("name", None)
        # Apart from those that are replaced after the trace, and numbered from one.
        fixed = tf.constant([stream(seed, seed2, next(numbers) + 2**20, worker), 0], tf.int64)
        with tf.name_scope(name or kind):
            seeds = tf.bitwise.bitwise_xor(fixed, draws.now())
            if not at_top:
                seeds += draws.ticket()
            return _STATELESS[kind](seeds, **args)

    return tf_private.making_random_ops(tuple(_STATELESS), make)


def _is_body(graph: Any, of: tf.Graph) -> bool:
    """Whether `graph` is of a function, a branch or a loop that is built inside of another."""
    while graph is not None and graph is not of:
        if str(getattr(graph, "name", "")).startswith("Dataset"):
            return False  # a pipeline of its own: it runs when it likes
        graph = getattr(graph, "outer_graph", None)
    return graph is of
