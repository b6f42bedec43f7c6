"""The building blocks that model functions are made up of.

A block is made first, with its variables, and then called on a batch of 8 rows of 6 numbers, to
give such a batch; maybe in a branch, a loop or a function. What may hold others has them in
`inside`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

import estimand as est

v1 = tf.compat.v1
WIDTH, ROWS = 6, 8
Layer = Callable[[tf.Tensor], tf.Tensor]
SIMPLE: dict[str, Callable[[Surroundings], Layer]] = {}
HOLDING: dict[str, Callable[[Surroundings, Layer], Layer]] = {}
RANDOM = {"tf_dropout", "noise", "keras_dropout", "shuffle"}
# Half precision, and branches on sums: a last bit may become a third digit.
COARSE = {"halves", "half_precision", "cond", "case", "autograph_loop", "sparse_product"}
BRANCHING = {"cond", "case", "every_third_step", "one_of_many"}
OUTSIDE_ONLY = {
    "summary", "keras_normalization", "v1_normalization", "keras_counter", "recurrent",
}  # fmt: skip


class Surroundings:
    """What blocks see beside their rows, and what they leave for the training op to wait for."""

    def __init__(self, features: dict[str, tf.Tensor]) -> None:
        self.features = features
        self._names = 0

    def name(self, what: str) -> str:
        self._names += 1
        return f"{what}_{self._names}"

    def variable(self, what: str, shape: list[int], **more: Any) -> tf.Variable:
        return v1.get_variable(self.name(what), shape, **more)


def simple(make: Callable[[Surroundings], Layer]) -> Any:
    SIMPLE[make.__name__] = make
    return make


def holding(make: Callable[[Surroundings, Layer], Layer]) -> Any:
    HOLDING[make.__name__] = make
    return make


# ------------------------------------------------------------------ layers


@simple
def v1_dense(around: Surroundings) -> Layer:
    kernel = around.variable("kernel", [WIDTH, WIDTH])
    bias = around.variable("bias", [WIDTH], initializer=v1.zeros_initializer())
    return lambda x: tf.nn.relu(x @ kernel + bias)


@simple
def keras_dense(around: Surroundings) -> Layer:
    layer = keras.layers.Dense(WIDTH, "tanh", name=around.name("dense"))
    layer.build([None, WIDTH])
    return layer


@simple
def compat_dense(around: Surroundings) -> Layer:
    layer = est.compat.v1.layers.Dense(WIDTH, name=around.name("layer"))
    layer(tf.zeros([ROWS, WIDTH]))  # makes its variables
    return layer


@simple
def hand_made(around: Surroundings) -> Layer:
    scale = tf.Variable(tf.ones([WIDTH]), name=around.name("scale"))
    return lambda x: x * scale


@simple
def embedding(around: Surroundings) -> Layer:
    table = around.variable("table", [10, WIDTH])
    return lambda x: x + tf.nn.embedding_lookup(table, around.features["id"])


@simple
def keras_normalization(around: Surroundings) -> Layer:
    layer = keras.layers.BatchNormalization(momentum=0.8, name=around.name("norm"))
    return lambda x: layer(x, training=True)


@simple
def v1_normalization(around: Surroundings) -> Layer:
    name = around.name("v1norm")

    def normalize(x: tf.Tensor) -> tf.Tensor:
        return est.compat.v1.layers.batch_normalization(x, training=True, name=name)

    return normalize


@simple
def divisions(around: Surroundings) -> Layer:
    return lambda x: (x / 2.55 - 0.1) / 0.3081


@simple
def sums(around: Surroundings) -> Layer:
    return lambda x: (x + tf.roll(x, 1, 1)) + tf.roll(x, 2, 1) + tf.cumsum(x, axis=1) * 0.1


@simple
def softmax(around: Surroundings) -> Layer:
    return lambda x: tf.nn.softmax(x) - tf.reduce_mean(x, axis=1, keepdims=True)


@simple
def sorts(around: Surroundings) -> Layer:
    return lambda x: x + tf.sort(x, axis=1) + tf.math.top_k(x, WIDTH).values


@simple
def integers(around: Surroundings) -> Layer:
    ids = around.features["id"]
    return lambda x: x + tf.one_hot(ids // 2 % 4, WIDTH)


@simple
def slices(around: Surroundings) -> Layer:
    start = tf.cast(around.features["id"][0] % 4, tf.int32)
    return lambda x: x + tf.slice(x, [start, 0], [1, WIDTH]) + x[start]


@simple
def halves(around: Surroundings) -> Layer:
    return lambda x: tf.cast(tf.cast(x, tf.bfloat16), tf.float32)


@simple
def own_gradient(around: Surroundings) -> Layer:
    @tf.custom_gradient
    def clipped(x: tf.Tensor) -> Any:
        return tf.clip_by_value(x, -2.0, 2.0), lambda upstream: upstream * 0.7

    return clipped


# ------------------------------------------------------------------ chance


@simple
def tf_dropout(around: Surroundings) -> Layer:
    return lambda x: tf.nn.dropout(x, 0.3)


@simple
def noise(around: Surroundings) -> Layer:
    return lambda x: x + 0.1 * tf.random.normal([ROWS, WIDTH], seed=7)


@simple
def shuffle(around: Surroundings) -> Layer:
    return lambda x: tf.transpose(tf.random.shuffle(tf.transpose(x)))


@simple
def keras_dropout(around: Surroundings) -> Layer:
    layer = keras.layers.Dropout(0.3, name=around.name("dropout"))
    return lambda x: layer(x, training=True)


# ------------------------------------------------------------------ state, looks and checks


@simple
def average(around: Surroundings) -> Layer:
    """Writes a running mean, and reads it before and after."""
    mean = around.variable("mean", [WIDTH], initializer=v1.zeros_initializer(), trainable=False)

    def follow(x: tf.Tensor) -> tf.Tensor:
        before = tf.identity(mean)
        with tf.control_dependencies([before]):
            written = v1.assign(mean, 0.9 * mean + 0.1 * tf.reduce_mean(x, axis=0))
        with tf.control_dependencies([written]):
            return x - 0.5 * (before + mean.read_value())

    return follow


@simple
def keras_counter(around: Surroundings) -> Layer:
    calls = keras.Variable(0.0, name=around.name("calls"), trainable=False)

    def count(x: tf.Tensor) -> tf.Tensor:
        calls.assign(calls.value + 1.0)
        return x + 0.01 * calls.value

    return count


@simple
def scatters(around: Surroundings) -> Layer:
    seen = around.variable("seen", [10], initializer=v1.zeros_initializer(), trainable=False)

    def note(x: tf.Tensor) -> tf.Tensor:
        noted = v1.scatter_add(seen, around.features["id"], tf.reduce_mean(x, axis=1))
        with tf.control_dependencies([noted]):
            return tf.identity(x)

    return note


@simple
def summary(around: Surroundings) -> Layer:
    def look(x: tf.Tensor) -> tf.Tensor:
        v1.summary.histogram(around.name("seen"), x)
        return x

    return look


@simple
def python(around: Surroundings) -> Layer:
    def call(x: tf.Tensor) -> tf.Tensor:
        # TensorFlow cannot differentiate a Python function that a loop or two calls run twice.
        back = tf.py_function(lambda value: value * 0.5, [x], tf.float32)
        return tf.ensure_shape(tf.stop_gradient(back), [ROWS, WIDTH]) + x

    return call


@simple
def assertion(around: Surroundings) -> Layer:
    def check(x: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(x < 1e6), [x])]):
            return tf.debugging.check_numerics(x, "no numbers")

    return check


# ------------------------------------------------------------------ what holds others


@holding
def cond(around: Surroundings, inside: Layer) -> Layer:
    return lambda x: tf.cond(tf.reduce_sum(x) > 0.0, lambda: inside(x), lambda: x * 0.5)


@holding
def every_third_step(around: Surroundings, inside: Layer) -> Layer:
    turn = tf.cast(v1.train.get_global_step() % 3, tf.int32)
    return lambda x: tf.switch_case(turn, [lambda: inside(x), lambda: x, lambda: tf.tanh(x)])


@holding
def loop(around: Surroundings, inside: Layer) -> Layer:
    def repeat(x: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(lambda i, _: i < 2, lambda i, y: (i + 1, inside(y)), (0, x))[1]

    return repeat


@holding
def function(around: Surroundings, inside: Layer) -> Layer:
    return tf.function(inside, autograph=False)


@holding
def function_called_twice(around: Surroundings, inside: Layer) -> Layer:
    called = tf.function(inside)
    return lambda x: called(x) + called(x * 0.5)


@holding
def recomputed(around: Surroundings, inside: Layer) -> Layer:
    """Stops gradients on one way and lets them pass on another."""
    return lambda x: 0.5 * tf.stop_gradient(inside(x)) + x


@holding
def mapped(around: Surroundings, inside: Layer) -> Layer:
    """Over two halves of a batch that are whole batches."""

    def both(x: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(tf.map_fn(inside, tf.stack([x, -x])), axis=0)

    return both


@holding
def beside(around: Surroundings, inside: Layer) -> Layer:
    return lambda x: x + inside(x)


# ------------------------------------------------------------------ faults of the eighth batch


BAD = 8


def failing(what: str, around: Surroundings) -> Layer:
    """A layer that raises an InvalidArgumentError."""
    number = around.features["n"]
    index = tf.cast(number, tf.int32)
    bad = tf.equal(number, BAD)

    def asserted(x: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([tf.debugging.Assert(~bad, [x])]):
            return tf.identity(x)

    ways: dict[str, Layer] = {
        "assert": asserted,
        "numerics": lambda x: tf.debugging.check_numerics(x / tf.where(bad, 0.0, 1.0), "bad"),
        "division": lambda x: (
            x + 0.0 * tf.cast(tf.constant(9, tf.int64) // (number - BAD), x.dtype)
        ),
        "index": lambda x: x + x[index],
        "slice": lambda x: x + tf.slice(x, [index, 0], [1, WIDTH]),
        "label": lambda x: x + _of_a_label(x, tf.where(bad, 9, 0)),
        "segment": lambda x: x + tf.math.unsorted_segment_sum(x, index + tf.range(ROWS) * 0, BAD),
    }
    return ways[what]


FAULTS = ("assert", "numerics", "division", "index", "slice", "label", "segment")


def _of_a_label(x: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
    labels = tf.fill([ROWS], label)
    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x)[:, None]
