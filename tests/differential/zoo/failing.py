"""Programs that stop in their eighth step, each in another way."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tests.differential.zoo.registry import (
    CLASSES,
    WIDTH,
    cross_entropy,
    numbered,
    program,
    spec,
    trained,
)  # fmt: skip

v1 = tf.compat.v1
Features = dict[str, tf.Tensor]
Invalid = tf.errors.InvalidArgumentError
BAD = 8


def failing(**known: Any) -> Any:
    known.setdefault("fails", Invalid)
    return program("failing", numbered, fails_at=BAD, **known)


def logits(x: tf.Tensor) -> tf.Tensor:
    return x @ v1.get_variable("kernel", [WIDTH, CLASSES])


def is_bad(features: Features) -> tf.Tensor:
    return tf.equal(features["n"][0], BAD)


@failing()
def assertion_with_dependencies(features: Features, labels: tf.Tensor, mode: str) -> Any:
    with tf.control_dependencies([v1.assert_less(features["n"], tf.constant(BAD, tf.int64))]):
        x = tf.identity(features["x"])
    return cross_entropy(labels, logits(x))


def checked_by(features: Features, value: tf.Tensor) -> tf.Tensor:
    with tf.control_dependencies([v1.assert_less(features["n"], tf.constant(BAD, tf.int64))]):
        return tf.identity(value)


@failing()
def assertion_before_an_update_by_hand(features: Features, labels: tf.Tensor, mode: str) -> Any:
    kernel = v1.get_variable("kernel", [WIDTH, CLASSES])
    loss = cross_entropy(labels, features["x"] @ kernel)
    [gradient] = tf.gradients(loss, [kernel])
    update = kernel.assign_sub(0.1 * checked_by(features, gradient))
    return spec(loss, tf.group(update, v1.assign_add(v1.train.get_global_step(), 1)))


@failing()
def assertion_before_adam_of_keras(features: Features, labels: tf.Tensor, mode: str) -> Any:
    layer = keras.layers.Dense(CLASSES, use_bias=False)
    with tf.GradientTape() as tape:
        loss = cross_entropy(labels, layer(features["x"]))
    [gradient] = tape.gradient(loss, [layer.kernel])
    keras.optimizers.Adam(0.1).apply([checked_by(features, gradient)], [layer.kernel])
    return spec(loss, v1.assign_add(v1.train.get_global_step(), 1))


@failing()
def assertion_before_adam_of_rows(features: Features, labels: tf.Tensor, mode: str) -> Any:
    table = v1.get_variable("table", [50, CLASSES])
    loss = cross_entropy(labels, tf.gather(table, features["n"]))
    optimizer = v1.train.AdamOptimizer(0.1)
    [(rows, _)] = optimizer.compute_gradients(loss, [table])
    rows = tf.IndexedSlices(checked_by(features, rows.values), rows.indices, rows.dense_shape)
    update = optimizer.apply_gradients([(rows, table)])
    return spec(loss, tf.group(update, v1.assign_add(v1.train.get_global_step(), 1)))


@failing(unchecked=True)
def gradient_of_a_row_that_is_not_there(features: Features, labels: tf.Tensor, mode: str) -> Any:
    table = v1.get_variable("table", [50, CLASSES])
    loss = cross_entropy(labels, tf.gather(table, features["n"]))
    rows = tf.IndexedSlices(tf.ones([8, CLASSES]), BAD - 1 - features["n"], tf.constant([50, 3]))
    optimizer = v1.train.AdamOptimizer(0.1)
    return spec(loss, optimizer.apply_gradients([(rows, table)], v1.train.get_global_step()))


@failing()
def assertion_in_a_function(features: Features, labels: tf.Tensor, mode: str) -> Any:
    @tf.function
    def checked(x: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
        tf.debugging.assert_less(n, tf.constant(BAD, tf.int64))
        return x * 2.0

    return cross_entropy(labels, logits(checked(features["x"], features["n"])))


@failing()
def assertion_in_a_branch(features: Features, labels: tf.Tensor, mode: str) -> Any:
    x = features["x"]

    def checked() -> tf.Tensor:
        with tf.control_dependencies([tf.debugging.Assert(~is_bad(features), [x])]):
            return x * 2.0

    return cross_entropy(labels, logits(tf.cond(features["n"][0] > 3, checked, lambda: x)))


@failing()
def assertion_in_a_loop(features: Features, labels: tf.Tensor, mode: str) -> Any:
    def body(i: tf.Tensor, x: tf.Tensor) -> Any:
        with tf.control_dependencies([tf.debugging.Assert(~is_bad(features), [i])]):
            return i + 1, x * 0.9

    _, x = tf.while_loop(lambda i, _: i < 2, body, (0, features["x"]))
    return cross_entropy(labels, logits(x))


@failing()
def numbers_that_are_checked(features: Features, labels: tf.Tensor, mode: str) -> Any:
    zero = tf.where(is_bad(features), 0.0, 1.0)
    x = tf.debugging.check_numerics(features["x"] / zero, "no number")
    return cross_entropy(labels, logits(x))


@failing()
def division_of_integers(features: Features, labels: tf.Tensor, mode: str) -> Any:
    scale = tf.cast(100 // (features["n"] - BAD), tf.float32)
    return cross_entropy(labels, logits(features["x"] * scale[:, None] * 0.01))


@failing()
def division_of_integers_in_a_function(features: Features, labels: tf.Tensor, mode: str) -> Any:
    divide = tf.function(lambda n: tf.cast(100 % (n - BAD), tf.float32))
    return cross_entropy(labels, logits(features["x"] * divide(features["n"])[:, None] * 0.01))


@failing()
def label_out_of_range(features: Features, labels: tf.Tensor, mode: str) -> Any:
    wrong = tf.where(is_bad(features), tf.constant(7, tf.int64), tf.constant(0, tf.int64))
    return cross_entropy(labels + wrong, logits(features["x"]))


@failing()
def label_out_of_range_in_a_function(features: Features, labels: tf.Tensor, mode: str) -> Any:
    wrong = tf.where(is_bad(features), tf.constant(7, tf.int64), tf.constant(0, tf.int64))
    return tf.function(cross_entropy)(labels + wrong, logits(features["x"]))


@failing(unchecked=True)
def id_out_of_range(features: Features, labels: tf.Tensor, mode: str) -> Any:
    table = v1.get_variable("table", [BAD, CLASSES])
    return cross_entropy(labels, tf.nn.embedding_lookup(table, features["n"]))


@failing(unchecked=True)
def row_out_of_range(features: Features, labels: tf.Tensor, mode: str) -> Any:
    x = tf.gather(features["x"], tf.cast(features["n"], tf.int32), axis=0) + features["x"]
    return cross_entropy(labels, logits(x))


@failing(unchecked=True)
def index_out_of_range(features: Features, labels: tf.Tensor, mode: str) -> Any:
    """By brackets."""
    x = features["x"] + features["x"][tf.cast(features["n"][0], tf.int32)]
    return cross_entropy(labels, logits(x))


@failing(unchecked=True)
def slice_out_of_range(features: Features, labels: tf.Tensor, mode: str) -> Any:
    start = tf.cast(features["n"][0], tf.int32)
    x = features["x"] + tf.slice(features["x"], [start, 0], [1, WIDTH])
    return cross_entropy(labels, logits(x))


@failing()
def segment_out_of_range(features: Features, labels: tf.Tensor, mode: str) -> Any:
    ids = tf.cast(features["n"], tf.int32)
    sums = tf.math.unsorted_segment_sum(features["x"], ids, BAD)
    return cross_entropy(labels, logits(features["x"] + tf.reduce_sum(sums, axis=0)))


@failing(unchecked=True)
def scatter_out_of_range(features: Features, labels: tf.Tensor, mode: str) -> Any:
    seen = v1.get_variable("seen", [BAD], initializer=v1.zeros_initializer(), trainable=False)
    noted = v1.scatter_add(seen, features["n"], tf.ones_like(features["x"][:, 0]))
    with tf.control_dependencies([noted]):
        return cross_entropy(labels, logits(features["x"] + 0.0))


@failing()
def matrix_that_is_singular(features: Features, labels: tf.Tensor, mode: str) -> Any:
    matrix = tf.eye(WIDTH) * tf.where(is_bad(features), 0.0, 1.0)
    return cross_entropy(labels, logits(features["x"] @ tf.linalg.inv(matrix)))


@failing(fails=tf.errors.UnknownError, eager=False)
def python_that_raises(features: Features, labels: tf.Tensor, mode: str) -> Any:
    def refuse(n: Any) -> Any:
        if int(n[0]) == BAD:
            raise RuntimeError("not this one")
        return n

    n = tf.py_function(refuse, [features["n"]], tf.int64)
    with tf.control_dependencies([n]):
        x = tf.identity(features["x"])
    return cross_entropy(labels, logits(x))


@failing()
def assertion_in_a_keras_layer(features: Features, labels: tf.Tensor, mode: str) -> Any:
    class Checks(keras.layers.Layer):
        def call(self, x: tf.Tensor, n: tf.Tensor) -> tf.Tensor:
            with tf.control_dependencies([v1.assert_less(n, tf.constant(BAD, tf.int64))]):
                return tf.identity(x)

    x = keras.layers.Dense(CLASSES)(Checks()(features["x"], features["n"]))
    return trained(cross_entropy(labels, x), keras.optimizers.Adam(0.01))
