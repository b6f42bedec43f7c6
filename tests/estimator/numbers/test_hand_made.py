"""Train ops that users put together themselves, against NumPy."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import estimand as est
from tests.estimator.conftest import (
    BATCH_SIZE,
    START,
    Rule,
    X,
    Y,
    assert_weights,
    input_fn,
    keras_layers,
    numpy_gradients,
    numpy_train,
    run_config,
    v1,
    v1_logits,
)

RATE = 0.3
each_way = pytest.mark.parametrize("config", [{}, {"run_eagerly": True}], ids=["traced", "eager"])


def sgd() -> Rule:
    return lambda gradient, step: -RATE * gradient


def train(model_fn: Any, model_dir: str, steps: int, **config: Any) -> est.Estimator:
    return est.Estimator(model_fn, model_dir, run_config(**config)).train(input_fn, steps=steps)


def test_clipped_gradients_applied_by_hand(model_dir: str) -> None:
    """compute_gradients / clip / apply_gradients, as much v1 code has it."""

    def model_fn(features: Any, labels: tf.Tensor, mode: str) -> est.EstimatorSpec:
        loss = v1.losses.sparse_softmax_cross_entropy(labels, v1_logits(features["x"]))
        optimizer = v1.train.GradientDescentOptimizer(RATE)
        pairs = [
            (tf.clip_by_value(g, -0.01, 0.01), v) for g, v in optimizer.compute_gradients(loss)
        ]
        train_op = optimizer.apply_gradients(pairs, global_step=v1.train.get_global_step())
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def rule() -> Rule:
        return lambda gradient, step: -RATE * np.clip(gradient, -0.01, 0.01)

    estimator = train(model_fn, model_dir, 5)
    assert_weights(estimator, numpy_train(rule, 5))


@each_way
def test_gradients_clipped_by_their_global_norm(model_dir: str, config: dict[str, Any]) -> None:
    """tf.gradients / clip_by_global_norm / apply_gradients, the way of the BERT family."""

    def model_fn(features: Any, labels: tf.Tensor, mode: str) -> est.EstimatorSpec:
        loss = v1.losses.sparse_softmax_cross_entropy(labels, v1_logits(features["x"]))
        variables = v1.trainable_variables()
        gradients, _ = tf.clip_by_global_norm(v1.gradients(loss, variables), clip_norm=0.05)
        optimizer = v1.train.GradientDescentOptimizer(RATE)
        step = v1.train.get_or_create_global_step()
        pairs = zip(gradients, variables, strict=True)
        train_op = tf.group(optimizer.apply_gradients(pairs), [step.assign(step + 1)])
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    expected = {name: value.astype(np.float64) for name, value in START.items()}
    for step in range(4):
        rows = slice(step * BATCH_SIZE, (step + 1) * BATCH_SIZE)
        gradients = numpy_gradients(expected, X[rows], Y[rows])
        norm = np.sqrt(sum((g**2).sum() for g in gradients.values()))
        for name, gradient in gradients.items():
            expected[name] -= RATE * gradient * min(1, 0.05 / norm)
    estimator = train(model_fn, model_dir, 4, **config)
    assert_weights(estimator, expected)
    assert estimator.get_variable_value("global_step") == 4


def test_two_optimizers_for_two_parts(model_dir: str) -> None:
    """Wide and deep: each part has its own, one of them advances the step."""

    def model_fn(features: Any, labels: tf.Tensor, mode: str) -> est.EstimatorSpec:
        loss = v1.losses.sparse_softmax_cross_entropy(labels, v1_logits(features["x"]))
        hidden = v1.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES, scope="hidden")
        logits = v1.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES, scope="logits")
        step = v1.train.get_global_step()
        train_op = tf.group(
            v1.train.GradientDescentOptimizer(RATE).minimize(loss, var_list=hidden),
            v1.train.GradientDescentOptimizer(RATE).minimize(loss, step, var_list=logits),
        )
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = train(model_fn, model_dir, 5)
    # Both gradients are taken before either part moves.
    assert_weights(estimator, numpy_train(sgd, 5))
    assert estimator.get_variable_value("global_step") == 5


@each_way
def test_keras_gradients_taken_and_applied_by_hand(model_dir: str, config: dict[str, Any]) -> None:
    """A tape, apply_gradients, and the step advanced by the user: program order does the rest."""
    import keras

    def model_fn(features: Any, labels: tf.Tensor, mode: str) -> est.EstimatorSpec:
        net, optimizer = keras_layers(), keras.optimizers.SGD(RATE)
        with tf.GradientTape() as tape:
            loss = v1.losses.sparse_softmax_cross_entropy(labels, net(features["x"]))
        gradients = tape.gradient(loss, net.trainable_variables)
        optimizer.apply_gradients(zip(gradients, net.trainable_variables, strict=True))
        step = v1.train.get_global_step()
        return est.EstimatorSpec(mode, loss=loss, train_op=step.assign_add(1))

    assert_weights(train(model_fn, model_dir, 5, **config), numpy_train(sgd, 5))


class HandMadeMomentum(v1.train.Optimizer):
    """An optimizer of the kind the BERT family brings along: slots by get_variable, assigns."""

    def __init__(self) -> None:
        super().__init__(use_locking=False, name="HandMadeMomentum")

    def apply_gradients(self, pairs: Any, global_step: Any = None, name: Any = None) -> Any:
        assignments = []
        for gradient, variable in pairs:
            slot = v1.get_variable(
                re.match(r"^(.*):\d+$", variable.name).group(1) + "/velocity",
                shape=variable.shape.as_list(),
                trainable=False,
                initializer=v1.zeros_initializer(),
            )
            velocity = 0.9 * slot + gradient
            assignments += [slot.assign(velocity), variable.assign(variable - RATE * velocity)]
        return tf.group(*assignments, name=name)


@each_way
def test_hand_made_optimizer(model_dir: str, config: dict[str, Any]) -> None:
    def model_fn(features: Any, labels: tf.Tensor, mode: str) -> est.EstimatorSpec:
        loss = v1.losses.sparse_softmax_cross_entropy(labels, v1_logits(features["x"]))
        variables = v1.trainable_variables()
        pairs = zip(v1.gradients(loss, variables), variables, strict=True)
        step = v1.train.get_or_create_global_step()
        train_op = tf.group(HandMadeMomentum().apply_gradients(pairs), [step.assign(step + 1)])
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def rule() -> Rule:
        velocity: Any = 0.0

        def update(gradient: np.ndarray, step: int) -> np.ndarray:
            nonlocal velocity
            velocity = 0.9 * velocity + gradient
            return -RATE * velocity

        return update

    estimator = train(model_fn, model_dir, 4, **config)
    estimator = train(model_fn, model_dir, 2, **config)  # the slots are in the checkpoint
    assert_weights(estimator, numpy_train(rule, 6))
    assert "hidden/kernel/velocity" in estimator.get_variable_names()


IDS = np.array([[0, 2, 2], [3, 0, 3], [2, 2, 2], [1, 0, 2]])  # row 4 is never looked up
TABLE = np.linspace(-1, 1, 10, dtype=np.float32).reshape(5, 2)


def v1_embedding(ids: tf.Tensor) -> tf.Tensor:
    return tf.nn.embedding_lookup(v1.get_variable("table", initializer=TABLE), ids)


def keras_sgd() -> Any:
    import keras

    return keras.optimizers.SGD(RATE)


def keras_embedding(ids: tf.Tensor) -> tf.Tensor:
    import keras

    initializer = keras.initializers.Constant(TABLE)
    return keras.layers.Embedding(5, 2, embeddings_initializer=initializer, name="table")(ids)


@pytest.mark.parametrize(
    ("lookup", "optimizer", "name"),
    [
        (v1_embedding, lambda: v1.train.AdagradOptimizer(RATE), "table"),
        # Keras itself squares the gradients of an id that repeats one by one, so not Adagrad.
        (keras_embedding, keras_sgd, "table/embeddings"),
    ],
    ids=["v1 adagrad", "keras sgd"],
)
def test_embedding_rows_move_when_looked_up_and_only_then(
    model_dir: str, lookup: Any, optimizer: Any, name: str
) -> None:
    def model_fn(features: tf.Tensor, mode: str) -> est.EstimatorSpec:
        loss = tf.reduce_sum(lookup(features) ** 3)
        return est.EstimatorSpec(mode, loss=loss, train_op=est.minimize(optimizer(), loss))

    def ids_input_fn() -> tf.data.Dataset:
        return tf.data.Dataset.from_tensor_slices(IDS).repeat()

    table, accumulator = TABLE.astype(np.float64), np.full(TABLE.shape, 0.1)
    for row in range(4):
        gradient = np.zeros_like(table)
        np.add.at(gradient, IDS[row], 3 * table[IDS[row]] ** 2)  # an id that repeats adds up
        accumulator += gradient**2
        table -= RATE * gradient / (np.sqrt(accumulator) if lookup is v1_embedding else 1)
    estimator = est.Estimator(model_fn, model_dir, run_config()).train(ids_input_fn, steps=4)
    found = estimator.get_variable_value(name)
    np.testing.assert_allclose(found, table, atol=1e-5)
    np.testing.assert_array_equal(found[4], TABLE[4])
