"""Models for clusters with parameter servers: tables, partitioned embeddings, short inputs."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

import estimand as est
from tests.engine.distributed import models

_v1 = tf.compat.v1
WORDS = ["a", "b", "c", "d", "e"]


def data() -> tuple[dict[str, np.ndarray], np.ndarray]:
    features, labels = models.data()
    features["word"] = np.array(WORDS, object)[features["kind"]]
    return features, labels


def input_fn(batch: int, repeat: bool = True):
    def fn() -> tf.data.Dataset:
        dataset = tf.data.Dataset.from_tensor_slices(data()).batch(batch)
        return dataset.repeat() if repeat else dataset

    return fn


def share_fn(batch: int, number: int, workers: int):
    """What one of several workers reads."""

    def fn() -> tf.data.Dataset:
        rows = tf.data.Dataset.from_tensor_slices(data())
        return rows.batch(batch).shard(workers, number).repeat()

    return fn


def v1_model_fn(features, labels, mode):
    """Words through a lookup table, into an embedding that may be in parts."""
    table = _v1.get_variable("words", [7, 4], initializer=_v1.ones_initializer())
    rows = tf.lookup.StaticVocabularyTable(
        tf.lookup.KeyValueTensorInitializer(WORDS, tf.range(5, dtype=tf.int64)), 2
    ).lookup(features["word"])
    w = _v1.get_variable("w", [7, 1], initializer=_v1.constant_initializer(0.1))
    x = tf.concat([features["x"], tf.nn.embedding_lookup(table, rows)], axis=1)
    logits = x @ w
    if mode == est.ModeKeys.PREDICT:
        return est.EstimatorSpec(mode, predictions={"p": tf.sigmoid(logits)})
    loss = _v1.losses.sigmoid_cross_entropy(labels, logits)
    train_op = _v1.train.AdamOptimizer(0.05).minimize(loss, _v1.train.get_global_step())
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def regression_model_fn(features, labels, mode):
    """Comes to a loss that it cannot go below, so that two ways to get there can be compared."""
    table = _v1.get_variable("table", [5, 1], initializer=_v1.zeros_initializer())
    print("parts of the table:", 1 if isinstance(table, tf.Variable) else len(list(table)))
    w = _v1.get_variable("w", [3, 1], initializer=_v1.zeros_initializer())
    y = features["x"] @ w + tf.nn.embedding_lookup(table, features["kind"])
    loss = tf.reduce_mean(tf.square(y - tf.cast(labels, tf.float32)))
    optimizer = _v1.train.MomentumOptimizer(0.02, 0.5)
    train_op = optimizer.minimize(loss, _v1.train.get_global_step())
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def keras_optimizer_model_fn(features, labels, mode):
    """Variables of v1, batch normalization and optimizer of Keras."""
    import keras

    table = _v1.get_variable("words", [7, 4], initializer=_v1.ones_initializer())
    x = tf.concat([features["x"], tf.nn.embedding_lookup(table, features["kind"])], axis=1)
    x = keras.layers.BatchNormalization(momentum=0.9)(x, training=mode == est.ModeKeys.TRAIN)
    logits = keras.layers.Dense(1)(x)
    loss = _v1.losses.sigmoid_cross_entropy(labels, logits)
    train_op = est.minimize(keras.optimizers.Adam(0.05), loss)
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


LARGE = (60_000, 16)  # of which a batch takes eight rows at most


def large_model_fn(make_optimizer):
    """A table that nobody would want to send, and a few numbers beside it."""

    def model_fn(features, labels, mode):
        import keras

        start = _v1.random_uniform_initializer(-0.1, 0.1, seed=5)
        table = _v1.get_variable("large", LARGE, initializer=start)
        found = tf.nn.embedding_lookup(table, features["kind"] * 12_007)
        x = tf.concat([features["x"], found], axis=1)
        logits = keras.layers.Dense(1)(x)
        loss = _v1.losses.sigmoid_cross_entropy(labels, logits)
        train_op = est.minimize(make_optimizer(keras.optimizers), loss)
        return est.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


HUGE = (4_000_000, 16)


def huge_model_fn(features, labels, mode):
    """A table that is not to be held by any one process."""
    start = _v1.random_uniform_initializer(-0.1, 0.1)
    table = _v1.get_variable("huge", HUGE, initializer=start)
    logits = tf.reduce_sum(tf.nn.embedding_lookup(table, features["kind"]), axis=1, keepdims=True)
    if mode == est.ModeKeys.PREDICT:
        return est.EstimatorSpec(mode, predictions={"logits": logits})
    loss = _v1.losses.sigmoid_cross_entropy(labels, logits)
    train_op = est.minimize(_v1.train.GradientDescentOptimizer(0.1), loss)
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


# What becomes of the rows that a step does not look up differs: some move them, some do not.
OPTIMIZERS = {
    "v1_adam": lambda keras: _v1.train.AdamOptimizer(0.01),
    "v1_adagrad": lambda keras: _v1.train.AdagradOptimizer(0.1),
    "keras_adam": lambda keras: keras.Adam(0.01, clipnorm=1.0),
    "keras_adamw": lambda keras: keras.AdamW(0.01, amsgrad=True, global_clipnorm=1.0),
    "keras_adagrad": lambda keras: keras.Adagrad(0.1),
    "keras_sgd": lambda keras: keras.SGD(0.1, momentum=0.9, nesterov=True),
    "keras_rmsprop": lambda keras: keras.RMSprop(0.01, centered=True),
    "keras_ftrl": lambda keras: keras.Ftrl(0.1, l1_regularization_strength=1e-4),
}


def columns(config):
    """A canned model with a vocabulary."""
    word = tf.feature_column.categorical_column_with_vocabulary_list("word", WORDS)
    embedded = tf.feature_column.embedding_column(word, 4)
    numbers = tf.feature_column.numeric_column("x", shape=3)
    return est.DNNClassifier(
        [4], [numbers, embedded], config=config, optimizer="Adam", batch_norm=True
    )


ESTIMATORS = {
    **models.ESTIMATORS,
    "tables": lambda config: est.Estimator(v1_model_fn, config=config),
    "regression": lambda config: est.Estimator(regression_model_fn, config=config),
    "keras_optimizer": lambda config: est.Estimator(keras_optimizer_model_fn, config=config),
    "columns": columns,
    "huge": lambda config: est.Estimator(huge_model_fn, config=config),
    **{
        f"large_{name}": lambda config, make=make: est.Estimator(
            large_model_fn(make), config=config
        )
        for name, make in OPTIMIZERS.items()
    },
}
