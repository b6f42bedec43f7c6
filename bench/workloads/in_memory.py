"""Steps per second of a small network whose data lies in memory.

The network of `dnn` on 1,000 rows, read by `numpy_input_fn`. The limits have no input pipeline at
all: rows are drawn with replacement, and the compiled loop gathers them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from environments import JAX, PROJECT, UPSTREAM
from turns import Turns
from workload import Contestant, Target, Workload

from workloads import dnn, step_rate

_ROWS = 1000
_STEPS_PER_CALL = 100


def _read(inputs: Any) -> Any:
    features, labels = dnn.examples(_ROWS)
    return inputs.numpy_input_fn(
        {"x": features}, labels, batch_size=dnn.BATCH, num_epochs=None, shuffle=True
    )


def estimand(turns: Turns) -> None:
    import estimand as est

    _, estimator = dnn.estimand_estimator()
    estimator.train(_read(est.inputs), hooks=[dnn.estimand_counter(turns, _STEPS_PER_CALL)])


def estimand_single_threaded(turns: Turns) -> None:
    import estimand as est

    _, estimator = dnn.estimand_estimator(block_mode="single_thread")
    estimator.train(_read(est.inputs), hooks=[dnn.estimand_counter(turns, _STEPS_PER_CALL)])


def upstream(turns: Turns) -> None:
    tf, estimator = dnn.upstream_estimator()
    read = _read(tf.compat.v1.estimator.inputs)
    estimator.train(read, hooks=[dnn.upstream_counter(turns)])


def tf_loop_compiled(turns: Turns) -> None:
    """By hand: rows by number, variables carried through a loop that XLA compiles."""
    import tensorflow as tf

    features, labels = map(tf.constant, dnn.examples(_ROWS))
    step = step_rate._tf_step(tf, bare_loss=True)

    @tf.function(jit_compile=True)
    def many_steps(rows: Any) -> Any:
        loss = tf.constant(0.0)
        for i in tf.range(_STEPS_PER_CALL):
            loss = step(tf.gather(features, rows[i]), tf.gather(labels, rows[i]))
        return loss

    random = np.random.default_rng(0)
    while True:
        rows = random.integers(0, _ROWS, (_STEPS_PER_CALL, dnn.BATCH), np.int32)
        float(many_steps(tf.constant(rows)))
        turns.tick(_STEPS_PER_CALL)


def jax_scan(turns: Turns) -> None:
    import jax
    import jax.numpy as jnp

    data = tuple(map(jnp.asarray, dnn.examples(_ROWS)))
    random = np.random.default_rng(0)
    sizes = list(zip(dnn.SIZES, dnn.SIZES[1:], strict=False))
    weights = [
        (random.uniform(-0.5, 0.5, size).astype("f"), np.zeros(size[1], "f")) for size in sizes
    ]
    sums = jax.tree.map(lambda w: np.full_like(w, 0.1), weights)

    def loss_of(weights: Any, x: Any, y: Any) -> Any:
        for i, (w, b) in enumerate(weights):
            x = x @ w + b
            if i < len(weights) - 1:
                x = jax.nn.relu(x)
        return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], axis=1))

    def step(state: Any, rows: Any) -> Any:
        weights, sums = state
        loss, slopes = jax.value_and_grad(loss_of)(weights, data[0][rows], data[1][rows])
        sums = jax.tree.map(lambda s, g: s + g * g, sums, slopes)
        update = lambda w, s, g: w - dnn.LEARNING_RATE * g * jax.lax.rsqrt(s)  # noqa: E731
        return (jax.tree.map(update, weights, sums, slopes), sums), loss

    many_steps = jax.jit(lambda state, rows: jax.lax.scan(step, state, rows))
    state = (weights, sums)
    while True:
        rows = random.integers(0, _ROWS, (_STEPS_PER_CALL, dnn.BATCH), np.int32)
        state, losses = many_steps(state, rows)
        float(losses[-1])
        turns.tick(_STEPS_PER_CALL)


_ESTIMAND = "Estimand, numpy_input_fn"
_UPSTREAM = "tf.estimator, numpy_input_fn"
_KERAS = "Keras fit, steps_per_execution=100"
_JAX = "JAX scan (limit)"

WORKLOAD = Workload(
    title="Data in memory: network of 10 and 10 units, batch 32, Adagrad, long run",
    contestants=[
        Contestant(_ESTIMAND, PROJECT, estimand),
        Contestant("the same, single-threaded executor", PROJECT, estimand_single_threaded),
        Contestant(_UPSTREAM, UPSTREAM, upstream),
        Contestant(_KERAS, PROJECT, step_rate.keras_fit_many),
        Contestant("hand-written loop, compiled (limit)", PROJECT, tf_loop_compiled),
        Contestant(_JAX, JAX, jax_scan),
    ],
    baseline=[_UPSTREAM],
    targets=[
        Target(_ESTIMAND, [_UPSTREAM], at_least=20),
        Target(_ESTIMAND, [_JAX], at_least=0.6),
        Target(_ESTIMAND, [_KERAS], at_least=4),
    ],
    rounds=20,
    quick_rounds=4,
)
