"""`tf.contrib.sparsemax` against the projection that it is."""

from __future__ import annotations

import numpy as np
import scipy.optimize
import tensorflow as tf

from estimand.compat.v1 import contrib

sparsemax = contrib.sparsemax


def test_it_is_the_nearest_distribution() -> None:
    logits = np.random.RandomState(0).normal(size=(3, 4))
    for row, made in zip(logits, sparsemax.sparsemax(logits).numpy(), strict=True):
        nearest = scipy.optimize.minimize(
            lambda p, row=row: ((p - row) ** 2).sum(),
            np.full(4, 0.25),
            bounds=[(0, 1)] * 4,
            constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
        )
        np.testing.assert_allclose(made, nearest.x, atol=1e-4)


def test_the_gradient_of_its_loss_is_its_error() -> None:
    logits = tf.Variable(np.random.RandomState(1).normal(size=(3, 4)))
    labels = np.eye(4)[[0, 2, 1]]
    with tf.GradientTape() as tape:
        made = sparsemax.sparsemax(logits)
        loss = sparsemax.sparsemax_loss(logits, made, labels)
    np.testing.assert_allclose(tape.gradient(loss, logits), made - labels, atol=1e-6)
    assert (loss.numpy() >= 0).all()
