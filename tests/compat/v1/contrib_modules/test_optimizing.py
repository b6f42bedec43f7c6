"""`optimize_loss`: the step is the one that its arguments say, worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from estimand.compat.v1 import contrib

v1 = tf.compat.v1


def weights_after_a_step(**given: Any) -> tuple[np.ndarray, float, int]:
    """Of w = [3, 4] with the loss w.w / 2, whose gradient is w."""
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.train.get_or_create_global_step()
        w = v1.get_variable("w", initializer=[3.0, 4.0])
        loss = tf.reduce_sum(tf.square(w)) / 2.0
        train_op = contrib.layers.optimize_loss(loss, step, **given)
        session.run(v1.global_variables_initializer())
        value = session.run(train_op)
        return session.run(w), float(value), int(session.run(step))


def test_a_step_by_name_gives_the_loss_and_counts() -> None:
    w, loss, step = weights_after_a_step(learning_rate=0.5, optimizer="SGD")
    np.testing.assert_allclose(w, [1.5, 2.0])
    assert (loss, step) == (12.5, 1)


def test_clipping_is_by_the_global_norm() -> None:
    w, _, _ = weights_after_a_step(
        learning_rate=1.0, optimizer=v1.train.GradientDescentOptimizer, clip_gradients=1.0
    )
    np.testing.assert_allclose(w, [2.4, 3.2], rtol=1e-6)


def test_the_rate_decays_and_gradients_are_multiplied() -> None:
    w, _, _ = weights_after_a_step(
        learning_rate=1.0,
        optimizer=lambda rate: v1.train.GradientDescentOptimizer(rate),
        learning_rate_decay_fn=lambda rate, step: rate * 0.5,
        gradient_multipliers={"w": 0.2},
    )
    np.testing.assert_allclose(w, [2.7, 3.6], rtol=1e-6)


def test_an_unknown_optimizer_is_told_with_those_there_are() -> None:
    with pytest.raises(ValueError, match=r"should be one of .*Adam.* you provided Adamm"):
        weights_after_a_step(learning_rate=1.0, optimizer="Adamm")
