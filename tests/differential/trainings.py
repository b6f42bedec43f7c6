"""Ways of training that programs made up at random may have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

import estimand as est
from tests.differential.zoo import registry

v1 = tf.compat.v1
TRAININGS: dict[str, Callable[..., est.EstimatorSpec]] = {}
OF_V1 = {"clip", "accumulate", "two optimizers", "gated"}  # with other optimizers: minimize


def training(build: Callable[..., est.EstimatorSpec]) -> Callable[..., est.EstimatorSpec]:
    TRAININGS[build.__name__.replace("_", " ")] = build
    return build


@training
def minimize(
    optimizer: Any, loss: tf.Tensor, logits: tf.Tensor, labels: tf.Tensor
) -> est.EstimatorSpec:
    return registry.spec(loss, est.minimize(optimizer, loss))


@training
def clip(
    optimizer: Any, loss: tf.Tensor, logits: tf.Tensor, labels: tf.Tensor
) -> est.EstimatorSpec:
    gradients, variables = zip(*optimizer.compute_gradients(loss), strict=True)
    gradients, norm = tf.clip_by_global_norm(gradients, 1.0)
    v1.summary.scalar("norm", norm)
    pairs = zip(gradients, variables, strict=True)
    return registry.spec(loss, optimizer.apply_gradients(pairs, v1.train.get_global_step()))


@training
def average(
    optimizer: Any, loss: tf.Tensor, logits: tf.Tensor, labels: tf.Tensor
) -> est.EstimatorSpec:
    averages = v1.train.ExponentialMovingAverage(0.9)
    with tf.control_dependencies([est.minimize(optimizer, loss)]):
        return registry.spec(loss, averages.apply(v1.trainable_variables()))


@training
def metric(
    optimizer: Any, loss: tf.Tensor, logits: tf.Tensor, labels: tf.Tensor
) -> est.EstimatorSpec:
    accuracy = v1.metrics.accuracy(labels, tf.argmax(logits, axis=1))
    v1.summary.scalar("accuracy", accuracy[1])
    return registry.spec(loss, est.minimize(optimizer, loss))


@training
def accumulate(
    optimizer: Any, loss: tf.Tensor, logits: tf.Tensor, labels: tf.Tensor
) -> est.EstimatorSpec:
    """Gradients of three batches are summed, then applied, in a condition."""
    step = v1.train.get_global_step()
    pairs = [(g, v) for g, v in optimizer.compute_gradients(loss) if g is not None]
    # By name: run eagerly, a branch that is taken later brings its variables later.
    sums = [
        v1.get_variable(
            f"sum_of_{v.name.partition(':')[0].replace('/', '_')}",
            v.shape,
            initializer=v1.zeros_initializer(),
            trainable=False,
        )
        for _, v in pairs
    ]
    added = [
        v1.assign_add(s, tf.convert_to_tensor(g)) for s, (g, _) in zip(sums, pairs, strict=True)
    ]

    def apply() -> tf.Operation:
        means = [(s / 3.0, v) for s, (_, v) in zip(sums, pairs, strict=True)]
        with tf.control_dependencies([optimizer.apply_gradients(means)]):
            return tf.group(*[v1.assign(s, tf.zeros_like(s)) for s in sums])

    with tf.control_dependencies(added):
        due = tf.equal(step % 3, 2)
        applied = tf.cond(due, apply, tf.no_op)
    with tf.control_dependencies([applied]):
        return registry.spec(loss, v1.assign_add(step, 1))


@training
def two_optimizers(
    optimizer: Any, loss: tf.Tensor, logits: tf.Tensor, labels: tf.Tensor
) -> est.EstimatorSpec:
    """One after the other, each for its half of the variables."""
    # One that gets no variable with a gradient refuses.
    variables = [v for g, v in optimizer.compute_gradients(loss) if g is not None]
    other = v1.train.MomentumOptimizer(0.01, 0.5)
    first = optimizer.minimize(loss, var_list=variables[::2])
    if len(variables) < 2:
        return registry.spec(loss, tf.group(first, v1.assign_add(v1.train.get_global_step(), 1)))
    with tf.control_dependencies([first]):
        second = other.minimize(loss, v1.train.get_global_step(), var_list=variables[1::2])
    return registry.spec(loss, second)


@training
def gated(
    optimizer: Any, loss: tf.Tensor, logits: tf.Tensor, labels: tf.Tensor
) -> est.EstimatorSpec:
    """Every second step trains; all of them count."""
    step = v1.train.get_global_step()
    gradients = [(g, v) for g, v in optimizer.compute_gradients(loss) if g is not None]
    due = tf.equal(step % 2, 0)
    applied = tf.cond(due, lambda: tf.group(optimizer.apply_gradients(gradients)), tf.no_op)
    with tf.control_dependencies([applied]):
        return registry.spec(loss, v1.assign_add(step, 1))
