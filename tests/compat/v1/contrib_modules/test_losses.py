"""`tf.contrib.losses`: the order of the arguments, and losses of distances in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from estimand.compat.v1 import contrib

v1 = tf.compat.v1
losses = contrib.losses
LOGITS = np.random.RandomState(0).normal(size=(4, 3)).astype(np.float32)
CLASSES = np.array([0, 2, 1, 1])
ROWS = np.eye(3, dtype=np.float32)[CLASSES]


@pytest.mark.parametrize("module", [contrib.losses, contrib.slim.losses])
def test_logits_come_first(module: Any) -> None:
    logs = LOGITS - np.log(np.exp(LOGITS).sum(1, keepdims=True))
    expected = -(logs * ROWS).sum(1).mean()
    with tf.Graph().as_default(), v1.Session() as session:
        made = [
            module.softmax_cross_entropy(LOGITS, ROWS),
            module.softmax_cross_entropy(onehot_labels=ROWS, logits=LOGITS),
            module.sparse_softmax_cross_entropy(LOGITS, CLASSES, 2.0),
        ]
        total = module.get_total_loss()
        one, other, double, total = session.run([*made, total])
    assert one == other == pytest.approx(expected, rel=1e-5)
    assert double == pytest.approx(2 * expected, rel=1e-5)
    assert total == pytest.approx(4 * expected, rel=1e-5)


def test_predictions_come_first() -> None:
    y, p = ROWS, 1 / (1 + np.exp(-LOGITS))
    with tf.Graph().as_default(), v1.Session() as session:
        made = session.run(
            [
                losses.mean_squared_error(p, y, 3.0),
                losses.absolute_difference(p, y, weight=3.0),
                losses.log_loss(p, y),
                losses.sigmoid_cross_entropy(LOGITS, y),
                losses.hinge_loss(tf.constant(LOGITS), y),
            ]
        )
    entropy = -(y * np.log(p) + (1 - y) * np.log(1 - p)).mean()
    assert made[0] == pytest.approx(3 * ((p - y) ** 2).mean(), rel=1e-5)
    assert made[1] == pytest.approx(3 * np.abs(p - y).mean(), rel=1e-5)
    assert made[2] == pytest.approx(entropy, rel=1e-4)
    assert made[3] == pytest.approx(entropy, rel=1e-4)
    np.testing.assert_allclose(made[4], np.maximum(1 - (2 * y - 1) * LOGITS, 0), rtol=1e-5)


def test_triplets() -> None:
    x = np.random.RandomState(1).normal(size=(8, 3)).astype(np.float32)
    labels = np.array([0, 1, 0, 2, 1, 1, 0, 2])
    squares = ((x[:, None] - x[None]) ** 2).sum(2)
    found = []
    for a, p in np.ndindex(8, 8):
        if a == p or labels[a] != labels[p]:
            continue
        others = squares[a][labels != labels[a]]
        farther = others[others > squares[a, p]]
        negative = farther.min() if len(farther) else others.max()
        found.append(max(1.0 + squares[a, p] - negative, 0))
    made = losses.metric_learning.triplet_semihard_loss(labels, x)
    assert float(made) == pytest.approx(np.mean(found), rel=1e-4)


def test_pairs() -> None:
    random = np.random.RandomState(2)
    a, b = (random.normal(size=(4, 3)).astype(np.float32) for _ in range(2))
    labels = np.array([1, 0, 1, 1])
    far = np.linalg.norm(a - b, axis=1)
    expected = np.where(labels == 1, far**2, np.maximum(1 - far, 0) ** 2).mean()
    learning = losses.metric_learning
    assert float(learning.contrastive_loss(labels, a, b)) == pytest.approx(expected, rel=1e-5)
    logits = a @ b.T
    same = (labels[:, None] == labels[None]).astype(float)
    logs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    entropy = -(same / same.sum(1, keepdims=True) * logs).sum(1).mean()
    penalty = 0.25 * 0.002 * ((a**2).sum(1).mean() + (b**2).sum(1).mean())
    assert float(learning.npairs_loss(labels, a, b)) == pytest.approx(entropy + penalty, rel=1e-5)
    with tf.GradientTape() as tape:
        points = tf.Variable([[1.0, 0.0], [1.0, 0.0]])
        distance = tf.reduce_sum(learning.pairwise_distance(points))
    assert np.isfinite(tape.gradient(distance, points)).all()
