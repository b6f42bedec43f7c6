"""Where the programs of the zoo are registered, and the batches that they are given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import estimand as est
from tests.differential.comparing import Program

ROWS, BATCH, WIDTH, IDS, CLASSES = 64, 8, 6, 10, 3
WORDS = ("ant", "bee", "cat", "dog", "eel")
PROGRAMS: dict[str, Program] = {}
_FILES: dict[str, str] = {}  # where each of them is written


def program(style: str, inputs: Callable[[], tf.data.Dataset] | None = None, **known: Any) -> Any:
    """Register a function of (features, labels, mode) that gives a loss or an EstimatorSpec."""

    def register(build: Callable[..., Any]) -> Callable[..., Any]:
        def model_fn(features: Any, labels: Any, mode: str) -> est.EstimatorSpec:
            made = build(features, labels, mode)
            return made if isinstance(made, est.EstimatorSpec) else trained(made)

        name, file = build.__name__, build.__code__.co_filename
        # The same file may be imported again, under another name, as pytest does for doctests.
        assert _FILES.setdefault(name, file) == file, name
        PROGRAMS[name] = Program(name, style, model_fn, inputs or rows, **known)
        return build

    return register


def trained(loss: tf.Tensor, optimizer: Any = None, **more: Any) -> est.EstimatorSpec:
    """A spec that lowers `loss`."""
    optimizer = optimizer or tf.compat.v1.train.GradientDescentOptimizer(0.05)
    return spec(loss, est.minimize(optimizer, loss), **more)


def spec(loss: tf.Tensor, train_op: Any, **more: Any) -> est.EstimatorSpec:
    return est.EstimatorSpec(est.ModeKeys.TRAIN, loss=loss, train_op=train_op, **more)


def cross_entropy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    return tf.reduce_mean(losses)


# ------------------------------------------------------------------ batches


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.RandomState(seed).normal(size=shape).astype(np.float32)


def shuffled(features: dict[str, Any]) -> tf.data.Dataset:
    """Batches of 8 out of 64 rows, in an order of their own in each epoch; labels 0, 1, 2."""
    labels = np.random.RandomState(1).randint(0, CLASSES, ROWS)
    dataset = tf.data.Dataset.from_tensor_slices((features, labels))
    return dataset.shuffle(ROWS, seed=3).repeat().batch(BATCH, drop_remainder=True)


def rows() -> tf.data.Dataset:
    """x: six numbers; id: 0 to 9."""
    ids = np.random.RandomState(2).randint(0, IDS, ROWS)
    return shuffled({"x": numbers(ROWS, WIDTH), "id": ids})


def images() -> tf.data.Dataset:
    """image: 8 by 8 pixels of 2 numbers."""
    return shuffled({"image": numbers(ROWS, 8, 8, 2)})


def words() -> tf.data.Dataset:
    """x: six numbers; word: one of five."""
    picked = np.random.RandomState(2).choice(WORDS, ROWS)
    return shuffled({"x": numbers(ROWS, WIDTH), "word": picked})


def sequences() -> tf.data.Dataset:
    """x: five times four numbers; length: 1 to 5."""
    lengths = np.random.RandomState(2).randint(1, 6, ROWS)
    return shuffled({"x": numbers(ROWS, 5, 4), "length": lengths})


def ragged() -> tf.data.Dataset:
    """ids: a ragged row of 0 to 4 numbers."""
    chance = np.random.RandomState(2)
    lists = [chance.randint(0, IDS, chance.randint(0, 5)).tolist() for _ in range(ROWS)]
    return shuffled({"ids": tf.ragged.constant(lists, dtype=tf.int64)})


def sparse() -> tf.data.Dataset:
    """x: six numbers, most of them left out."""
    dense = numbers(ROWS, WIDTH) * (np.random.RandomState(2).uniform(size=(ROWS, WIDTH)) < 0.4)
    dataset = shuffled({"x": dense.astype(np.float32)})
    return dataset.map(lambda f, y: ({"x": tf.sparse.from_dense(f["x"])}, y))


def numbered() -> tf.data.Dataset:
    """x: six numbers; n: the number of the batch, from 1 on, in each row."""
    of_batches = np.tile(numbers(BATCH, WIDTH), (40, 1))
    n = np.repeat(np.arange(1, 41), BATCH)
    labels = np.zeros(len(n), np.int64)
    dataset = tf.data.Dataset.from_tensor_slices(({"x": of_batches, "n": n}, labels))
    return dataset.batch(BATCH, drop_remainder=True)
