"""More building blocks: tables, sequences, sparse and ragged rows, half precision, gradients.

They are what `blocks` has: made first, then called on 8 rows of 6 numbers.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tests.differential.blocks import ROWS, WIDTH, Layer, Surroundings, holding, simple

v1 = tf.compat.v1


# ------------------------------------------------------------------ tables and lookups


@simple
def static_table(around: Surroundings) -> Layer:
    keys = tf.constant([0, 1, 2, 5, 8], tf.int64)
    pairs = tf.lookup.KeyValueTensorInitializer(keys, tf.constant([0.1, -0.2, 0.3, 0.4, -0.5]))
    table = tf.lookup.StaticHashTable(pairs, default_value=0.05)
    ids = tf.cast(around.features["id"], tf.int64)
    return lambda x: x + table.lookup(ids)[:, None]


@simple
def sparse_lookup(around: Surroundings) -> Layer:
    kernel = around.variable("sparse", [10, WIDTH])
    ids = tf.cast(around.features["id"], tf.int64)

    def look_up(x: tf.Tensor) -> tf.Tensor:
        rows = tf.repeat(tf.range(ROWS, dtype=tf.int64), 2)
        places = tf.stack([rows, tf.tile(tf.range(2, dtype=tf.int64), [ROWS])], axis=1)
        values = tf.reshape(tf.stack([ids, (ids * 3 + 1) % 10], axis=1), [-1])
        bag = tf.SparseTensor(places, values, [ROWS, 2])
        return x + tf.nn.embedding_lookup_sparse(kernel, bag, None, combiner="mean")

    return look_up


@simple
def sparse_product(around: Surroundings) -> Layer:
    kernel = around.variable("product", [WIDTH, WIDTH])

    def multiply(x: tf.Tensor) -> tf.Tensor:
        large = tf.sparse.from_dense(tf.where(tf.abs(x) > 0.5, x, 0.0))
        return 0.5 * x + tf.sparse.sparse_dense_matmul(large, kernel)

    return multiply


@simple
def ragged_means(around: Surroundings) -> Layer:
    lengths = tf.cast(around.features["id"] % 4, tf.int32)
    weight = around.variable("ragged", [WIDTH], initializer=v1.ones_initializer())

    def average(x: tf.Tensor) -> tf.Tensor:
        flat = tf.repeat(x * weight, lengths, axis=0)
        parts = tf.RaggedTensor.from_row_lengths(flat, lengths)
        return x + 0.1 * tf.reduce_sum(parts, axis=1)

    return average


# ------------------------------------------------------------------ sequences


@simple
def scanned(around: Surroundings) -> Layer:
    decay = around.variable("decay", [WIDTH], initializer=v1.ones_initializer())

    def scan(x: tf.Tensor) -> tf.Tensor:
        return tf.scan(lambda state, row: 0.5 * decay * state + row, x, tf.zeros([WIDTH]))

    return scan


@simple
def tensor_array(around: Surroundings) -> Layer:
    def walk(x: tf.Tensor) -> tf.Tensor:
        def body(i: tf.Tensor, last: tf.Tensor, rows: tf.TensorArray) -> Any:
            new = 0.3 * last + x[i]
            return i + 1, new, rows.write(i, new)

        rows = tf.TensorArray(tf.float32, ROWS, element_shape=[WIDTH])
        start = (tf.constant(0), tf.zeros([WIDTH]), rows)
        return tf.while_loop(lambda i, *_: i < ROWS, body, start)[2].stack()

    return walk


@simple
def recurrent(around: Surroundings) -> Layer:
    layer = keras.layers.GRU(WIDTH, name=around.name("gru"))
    layer.build([None, 3, 2])
    return lambda x: x + layer(tf.reshape(x, [ROWS, 3, 2]))


@simple
def autograph_loop(around: Surroundings) -> Layer:
    @tf.function
    def halve(x: tf.Tensor) -> tf.Tensor:
        i = tf.constant(0)
        while tf.reduce_max(tf.abs(x)) > 0.5 and i < 4:
            if i % 2 == 0:
                x = x * 0.5
            elif i > 2:
                x = x - 0.1 * tf.sign(x)
            i += 1
        return x

    return halve


# ------------------------------------------------------------------ numbers


@simple
def half_precision(around: Surroundings) -> Layer:
    layer = keras.layers.Dense(WIDTH, dtype="mixed_float16", name=around.name("half"))
    layer.build([None, WIDTH])
    return lambda x: tf.cast(layer(x), tf.float32)


@simple
def convolution(around: Surroundings) -> Layer:
    kernel = around.variable("window", [3, 1, 2])

    def slide(x: tf.Tensor) -> tf.Tensor:
        return x + tf.reduce_mean(tf.nn.conv1d(x[:, :, None], kernel, 1, "SAME"), axis=2)

    return slide


@simple
def inner_gradient(around: Surroundings) -> Layer:
    """A penalty on a gradient, as in Wasserstein GANs."""
    weight = around.variable("inner", [WIDTH], initializer=v1.ones_initializer())

    def slope(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = tf.reduce_sum(tf.tanh(x * weight))
        return x + 0.1 * tape.gradient(value, x)

    return slope


@simple
def local_count(around: Surroundings) -> Layer:
    """A local variable, which no checkpoint of old had, that the step depends on."""
    name = around.name("local")
    count = v1.get_local_variable(name, [], initializer=v1.zeros_initializer())

    def add(x: tf.Tensor) -> tf.Tensor:
        with tf.control_dependencies([v1.assign_add(count, 0.25)]):
            return x + 0.01 * count.read_value()

    return add


# ------------------------------------------------------------------ what holds others


@holding
def one_of_many(around: Surroundings, inside: Layer) -> Layer:
    """Conditions inside of conditions, as a schedule of old has them."""
    step = v1.train.get_global_step()

    def choose(x: tf.Tensor) -> tf.Tensor:
        later = lambda: tf.cond(step < 8, lambda: inside(x), lambda: tf.tanh(x))  # noqa: E731
        return tf.cond(step < 3, lambda: 0.5 * x, later)

    return choose


@holding
def case(around: Surroundings, inside: Layer) -> Layer:
    def choose(x: tf.Tensor) -> tf.Tensor:
        size = tf.reduce_mean(tf.abs(x))
        pairs = [(size > 2.0, lambda: x * 0.5), (size < 0.2, lambda: x * 2.0)]
        return tf.case(pairs, default=lambda: inside(x))

    return choose


@holding
def recompute_gradient(around: Surroundings, inside: Layer) -> Layer:
    return lambda x: x + tf.grad_pass_through(inside)(x)


@holding
def vectorized(around: Surroundings, inside: Layer) -> Layer:
    """Over two whole batches, with the loop written for one of them."""
    return lambda x: tf.add_n(tf.unstack(tf.map_fn(inside, tf.stack([x, x * 0.5])))) / 2.0
