"""The optimizers of tf.contrib.opt, against their formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from estimand.compat.v1.contrib_modules import opt

v1 = tf.compat.v1
START = np.array([[1.0, -2.0], [3.0, 4.0], [-5.0, 6.0]])


def after_steps(optimizer: Any, rows: list[int] | None, steps: int, **options: Any) -> np.ndarray:
    """The weights after some steps along a loss of all of them, or of some rows."""
    with tf.Graph().as_default(), v1.Session() as session:
        weights = v1.get_variable("w", initializer=START, use_resource=True)
        used = weights if rows is None else tf.gather(weights, rows)
        step = optimizer().minimize(tf.reduce_sum(used**2) / 2, **options)
        session.run(v1.global_variables_initializer())
        for _ in range(steps):
            session.run(step)
        return session.run(weights)


def adam(weights: np.ndarray, steps: int, *, nesterov: bool = False) -> np.ndarray:
    """Its gradient is the weights themselves."""
    first = second = np.zeros_like(weights)
    for t in range(1, steps + 1):
        first = 0.9 * first + 0.1 * weights
        second = 0.999 * second + 0.001 * weights**2
        ahead = 0.9 * first + 0.1 * weights if nesterov else first
        rate = 0.1 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        weights = weights - rate * ahead / (np.sqrt(second) + 1e-8)
    return weights


def test_lazy_adam_leaves_other_rows_alone() -> None:
    found = after_steps(lambda: opt.LazyAdamOptimizer(0.1), [0, 2], 3)
    assert found[[0, 2]] == pytest.approx(adam(START[[0, 2]], 3), rel=1e-5)
    assert found[1] == pytest.approx(START[1])


@pytest.mark.parametrize("rows", [None, [0, 1, 2]], ids=["dense", "rows"])
def test_nadam_looks_ahead(rows: list[int] | None) -> None:
    found = after_steps(lambda: opt.NadamOptimizer(0.1), rows, 3)
    assert found == pytest.approx(adam(START, 3, nesterov=True), rel=1e-5)


def test_weights_decay_apart_from_the_gradient() -> None:
    found = after_steps(lambda: opt.MomentumWOptimizer(0.01, 0.1, 0.0), None, 1)
    assert found == pytest.approx(START - 0.01 * START - 0.1 * START)
    found = after_steps(lambda: opt.AdamWOptimizer(0.01, 0.1), None, 1)
    assert found == pytest.approx(START - 0.01 * START - 0.1 * np.sign(START), abs=1e-6)
    kind = opt.extend_with_decoupled_weight_decay(v1.train.GradientDescentOptimizer)
    found = after_steps(lambda: kind(0.01, 0.1), None, 1, decay_var_list=[])
    assert found == pytest.approx(0.9 * START)
