"""Programs that mix the styles, and those of TensorFlow 2: functions, tapes, Python in the step."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

import estimand as est
from tests.differential.zoo.registry import (
    BATCH,
    CLASSES,
    IDS,
    WIDTH,
    cross_entropy,
    program,
    ragged,
    rows,
    sparse,
    spec,
    trained,
)  # fmt: skip

v1 = tf.compat.v1
Features = dict[str, tf.Tensor]


def kernel(name: str = "kernel", inputs: int = WIDTH, outputs: int = CLASSES) -> tf.Variable:
    return v1.get_variable(name, [inputs, outputs])


@program("mixed")
def keras_layers_with_v1_optimizer(features: Features, labels: tf.Tensor, mode: str) -> Any:
    x = keras.layers.Dense(5, activation="relu")(features["x"])
    loss = cross_entropy(labels, x @ kernel(inputs=5))
    optimizer = v1.train.AdagradOptimizer(0.1)
    return spec(loss, optimizer.minimize(loss, v1.train.get_global_step()))


@program("mixed", random=True)
def v1_variables_with_keras_optimizer(features: Features, labels: tf.Tensor, mode: str) -> Any:
    x = keras.layers.Dropout(0.3)(features["x"], training=True)
    return trained(cross_entropy(labels, x @ kernel()), keras.optimizers.Adam(0.01))


@program("mixed")
def keras_normalization_with_v1_averages(features: Features, labels: tf.Tensor, mode: str) -> Any:
    x = keras.layers.BatchNormalization()(features["x"], training=True)
    loss = cross_entropy(labels, x @ kernel())
    step = est.minimize(v1.train.MomentumOptimizer(0.05, 0.9), loss)
    averages = v1.train.ExponentialMovingAverage(0.9)
    with tf.control_dependencies([step]):
        return spec(loss, averages.apply(v1.trainable_variables()))


@program("functions")
def function_over_variables(features: Features, labels: tf.Tensor, mode: str) -> Any:
    w = kernel()

    @tf.function
    def logits(x: tf.Tensor) -> tf.Tensor:
        return tf.tanh(x @ w)

    v1.summary.histogram("w", w)
    return cross_entropy(labels, logits(features["x"]))


@program("functions")
def function_over_a_keras_model(features: Features, labels: tf.Tensor, mode: str) -> Any:
    model = keras.Sequential([keras.layers.Dense(5, "relu"), keras.layers.BatchNormalization(),
                              keras.layers.Dense(CLASSES)])  # fmt: skip
    model.build([None, WIDTH])
    called = tf.function(lambda x: model(x, training=True))
    return trained(cross_entropy(labels, called(features["x"])), keras.optimizers.Adam(0.01))


@program("functions", eager=False)  # there every step converts it anew, half a minute in all
def function_with_autograph(features: Features, labels: tf.Tensor, mode: str) -> Any:
    w = kernel(outputs=WIDTH)

    @tf.function
    def powers(x: tf.Tensor) -> tf.Tensor:
        for i in tf.range(4):
            if tf.equal(i % 2, 0):
                x = tf.tanh(x @ w)
            x = x * 0.5
        return x

    return cross_entropy(labels, powers(features["x"]) @ kernel("out"))


@program("functions")
def function_that_counts(features: Features, labels: tf.Tensor, mode: str) -> Any:
    """Writes to a variable, which is read before and after."""
    count = v1.get_variable("count", [], initializer=v1.zeros_initializer(), trainable=False)

    @tf.function
    def counted(x: tf.Tensor) -> tf.Tensor:
        count.assign_add(1.0)
        return x / count

    before = tf.identity(count)
    x = counted(features["x"]) + before
    return cross_entropy(labels, x @ kernel())


@program("functions", random=True)
def function_with_random_numbers(features: Features, labels: tf.Tensor, mode: str) -> Any:
    @tf.function
    def noisy(x: tf.Tensor) -> tf.Tensor:
        return tf.nn.dropout(x, 0.3) + tf.random.normal(tf.shape(x), stddev=0.1)

    return cross_entropy(labels, noisy(noisy(features["x"])) @ kernel())


@program("functions")
def gradient_tape(features: Features, labels: tf.Tensor, mode: str) -> Any:
    w = kernel()
    with tf.GradientTape() as tape:
        loss = cross_entropy(labels, features["x"] @ w)
    optimizer = keras.optimizers.SGD(0.05, momentum=0.5)
    optimizer.build([w])
    optimizer.apply_gradients(zip(tape.gradient(loss, [w]), [w], strict=True))
    return spec(loss, v1.assign_add(v1.train.get_global_step(), 1).op)


@program("functions")
def penalty_on_gradients(features: Features, labels: tf.Tensor, mode: str) -> Any:
    """Second derivatives."""
    x = features["x"]
    logits = tf.tanh(x @ kernel())
    slope = tf.gradients(logits, x)[0]
    return cross_entropy(labels, logits) + 0.1 * tf.reduce_mean(tf.square(slope))


@program("functions")
def gradient_of_ones_own(features: Features, labels: tf.Tensor, mode: str) -> Any:
    @tf.custom_gradient
    def rounded(x: tf.Tensor) -> Any:
        return tf.round(x), lambda upstream: upstream * 0.5

    return cross_entropy(labels, rounded(features["x"] @ kernel() * 4.0))


@program("control flow")
def cond_on_the_data(features: Features, labels: tf.Tensor, mode: str) -> Any:
    x, w = features["x"], kernel()
    positive = tf.reduce_sum(x) > 0.0
    logits = tf.cond(positive, lambda: x @ w, lambda: -x @ tf.square(w))
    return cross_entropy(labels, logits)


@program("control flow", random=True)
def random_numbers_in_branches(features: Features, labels: tf.Tensor, mode: str) -> Any:
    x, w = features["x"], kernel()
    heads = tf.random.uniform([]) > 0.5
    noisy = tf.cond(
        heads, lambda: x + tf.random.normal([BATCH, WIDTH]), lambda: tf.nn.dropout(x, 0.5)
    )
    return cross_entropy(labels, noisy @ w)


@program("control flow", random=True)
def random_numbers_in_a_loop(features: Features, labels: tf.Tensor, mode: str) -> Any:
    def body(i: tf.Tensor, x: tf.Tensor) -> Any:
        return i + 1, x + 0.1 * tf.random.normal([BATCH, WIDTH])

    _, x = tf.while_loop(lambda i, _: i < 3, body, (0, features["x"]))
    return cross_entropy(labels, x @ kernel())


@program("control flow")
def map_over_rows(features: Features, labels: tf.Tensor, mode: str) -> Any:
    w = kernel()
    logits = tf.map_fn(lambda row: tf.tensordot(tf.sort(row), w, 1), features["x"])
    return cross_entropy(labels, logits)


@program("control flow")
def scan_and_fold(features: Features, labels: tf.Tensor, mode: str) -> Any:
    w = kernel(outputs=WIDTH)
    x = tf.transpose(features["x"])
    running = tf.scan(lambda a, b: 0.5 * a + b, x)
    folded = tf.foldl(lambda a, b: tf.maximum(a, b), tf.transpose(running) @ w)
    return cross_entropy(labels, features["x"] @ kernel("out")) + tf.reduce_mean(folded)


@program("control flow")
def switch_by_step(features: Features, labels: tf.Tensor, mode: str) -> Any:
    x, w = features["x"], kernel()
    step = v1.train.get_global_step()
    ways = [lambda: x @ w, lambda: tf.tanh(x) @ w, lambda: tf.nn.relu(x) @ w]
    return cross_entropy(labels, tf.switch_case(tf.cast(step % 3, tf.int32), ways))


@program("control flow")
def loop_until_it_converges(features: Features, labels: tf.Tensor, mode: str) -> Any:
    """How often depends on the data; not trained through."""

    def body(i: tf.Tensor, x: tf.Tensor) -> Any:
        return i + 1, x * 0.7

    start = (0, tf.abs(tf.stop_gradient(features["x"])))
    times, _ = tf.while_loop(lambda i, x: tf.reduce_max(x) > 0.3, body, start)
    loss = cross_entropy(labels, features["x"] @ kernel())
    return loss * (1.0 + 0.01 * tf.cast(times, tf.float32))


@program("python")
def python_function(features: Features, labels: tf.Tensor, mode: str) -> Any:
    def standardized(x: Any) -> Any:
        x = x.numpy()
        return (x - x.mean()) / (x.std() + 1e-3)

    x = tf.py_function(standardized, [features["x"]], tf.float32)
    return cross_entropy(labels, tf.ensure_shape(x, [BATCH, WIDTH]) @ kernel())


@program("python")
def numpy_function_in_a_branch(features: Features, labels: tf.Tensor, mode: str) -> Any:
    x = features["x"]

    def clipped() -> tf.Tensor:
        found = tf.numpy_function(lambda a: np.clip(a, -1, 1), [x], tf.float32)
        return tf.ensure_shape(found, x.shape)

    x = tf.cond(tf.reduce_sum(x) > 0.0, clipped, lambda: x)
    return cross_entropy(labels, x @ kernel())


@program("python")
def prints_in_the_step(features: Features, labels: tf.Tensor, mode: str) -> Any:
    loss = cross_entropy(labels, features["x"] @ kernel())
    with tf.control_dependencies([tf.print("loss", loss, output_stream="file:///dev/null")]):
        return trained(tf.identity(loss))


@program("checks")
def checks_that_hold(features: Features, labels: tf.Tensor, mode: str) -> Any:
    x = tf.debugging.check_numerics(features["x"], "bad input")
    tf.debugging.assert_less(labels, tf.cast(CLASSES, labels.dtype))
    return cross_entropy(labels, x @ kernel())


@program("checks")
def checks_in_functions_that_hold(features: Features, labels: tf.Tensor, mode: str) -> Any:
    @tf.function
    def checked(x: tf.Tensor) -> tf.Tensor:
        tf.debugging.Assert(tf.reduce_all(x < 100.0), [x])
        return x

    return cross_entropy(labels, checked(features["x"]) @ kernel())


@program("integers")
def integer_arithmetic(features: Features, labels: tf.Tensor, mode: str) -> Any:
    bucket = (features["id"] // 3) % 2 + tf.bitwise.bitwise_xor(features["id"], 1) % 3
    hot = tf.one_hot(bucket, 4)
    return cross_entropy(labels, hot @ kernel(inputs=4))


@program("integers")
def lookups_and_slices(features: Features, labels: tf.Tensor, mode: str) -> Any:
    x, ids = features["x"], features["id"]
    start = tf.cast(ids[0] % 3, tf.int32)
    part = tf.slice(x, [0, start], [BATCH, 3])
    picked = tf.gather(x, ids % WIDTH, axis=1, batch_dims=0)[:, :3]
    logits = (part + picked + x[start][None, :3]) @ kernel(inputs=3)
    return cross_entropy(labels, logits)


@program("integers")
def segments_and_scatters(features: Features, labels: tf.Tensor, mode: str) -> Any:
    sums = tf.math.unsorted_segment_sum(features["x"], features["id"], IDS)
    seen = v1.get_variable("seen", [IDS], tf.int64, v1.zeros_initializer(), trainable=False)
    noted = v1.scatter_add(seen, features["id"], tf.ones_like(features["id"]))
    with tf.control_dependencies([noted]):
        x = tf.gather(sums, features["id"])
    return cross_entropy(labels, x @ kernel())


@program("integers")
def top_and_sorted(features: Features, labels: tf.Tensor, mode: str) -> Any:
    top = tf.math.top_k(features["x"], 3).values
    order = tf.gather(features["x"], tf.argsort(features["x"][:, 0]))
    return cross_entropy(labels, top @ kernel(inputs=3) + order @ kernel("other"))


@program("sparse", sparse)
def sparse_lookup(features: dict[str, Any], labels: tf.Tensor, mode: str) -> Any:
    values = features["x"]
    ids = tf.SparseTensor(values.indices, values.indices[:, 1], values.dense_shape)
    looked_up = tf.nn.safe_embedding_lookup_sparse(kernel(), ids, values, combiner="sum")
    return trained(cross_entropy(labels, looked_up), v1.train.FtrlOptimizer(0.05))


@program("sparse", ragged)
def ragged_reductions(features: dict[str, Any], labels: tf.Tensor, mode: str) -> Any:
    rows_of_ids = features["ids"]
    vectors = tf.ragged.map_flat_values(tf.nn.embedding_lookup, kernel(inputs=IDS), rows_of_ids)
    return cross_entropy(labels, tf.reduce_sum(vectors, axis=1))


@program("state")
def variable_of_changing_values(features: Features, labels: tf.Tensor, mode: str) -> Any:
    """Reads, writes and reads again within the step, in the order of the program."""
    state = v1.get_variable("state", [WIDTH], initializer=v1.zeros_initializer(), trainable=False)
    before = tf.identity(state)
    with tf.control_dependencies([before]):
        written = v1.assign(state, 0.9 * state + 0.1 * tf.reduce_mean(features["x"], axis=0))
    with tf.control_dependencies([written]):
        after = state.read_value()
    return cross_entropy(labels, (features["x"] - before + after) @ kernel())


@program("state")
def queue_of_old_batches(features: Features, labels: tf.Tensor, mode: str) -> Any:
    """A memory of the last three batches, by slices of a variable."""
    memory = v1.get_variable(
        "memory", [3, WIDTH], initializer=v1.zeros_initializer(), trainable=False
    )
    place = tf.cast(v1.train.get_global_step() % 3, tf.int32)
    mean = tf.reduce_mean(features["x"], axis=0)
    kept = tf.tensor_scatter_nd_update(memory, [[place]], [mean])
    with tf.control_dependencies([v1.assign(memory, kept)]):
        x = features["x"] + tf.reduce_mean(memory.read_value(), axis=0)
    return cross_entropy(labels, x @ kernel())


@program("eager", rows)
def weights_of_float64(features: Features, labels: tf.Tensor, mode: str) -> Any:
    w = tf.Variable(tf.ones([WIDTH, CLASSES], tf.float64) * 0.1, name="w64")
    logits = tf.cast(features["x"], tf.float64) @ w
    return cross_entropy(labels, tf.cast(logits, tf.float32))


@program("eager")
def linear_algebra(features: Features, labels: tf.Tensor, mode: str) -> Any:
    x = features["x"]
    gram = tf.transpose(x) @ x + 10.0 * tf.eye(WIDTH)
    whitened = tf.transpose(tf.linalg.triangular_solve(tf.linalg.cholesky(gram), tf.transpose(x)))
    return cross_entropy(labels, whitened @ kernel())


@program("eager", random=True)
def stateless_and_generated(features: Features, labels: tf.Tensor, mode: str) -> Any:
    step = v1.train.get_global_step()
    seed = tf.stack([tf.cast(step, tf.int32), 7])
    x = features["x"] + 0.1 * tf.random.stateless_normal([BATCH, WIDTH], seed)
    order = tf.random.shuffle(tf.range(BATCH))
    return cross_entropy(labels, x @ kernel()) + 0.01 * tf.reduce_mean(
        tf.gather(x, order) @ kernel("other")
    )


@program("eager")
def fourier_and_complex(features: Features, labels: tf.Tensor, mode: str) -> Any:
    spectrum = tf.abs(tf.signal.rfft(features["x"] @ kernel(outputs=WIDTH)))
    return cross_entropy(labels, spectrum @ kernel("out", inputs=WIDTH // 2 + 1))


@program("eager")
def einsum_and_norms(features: Features, labels: tf.Tensor, mode: str) -> Any:
    x = tf.math.l2_normalize(features["x"], axis=1)
    cube = v1.get_variable("cube", [WIDTH, WIDTH, CLASSES])
    return cross_entropy(labels, tf.einsum("bi,bj,ijk->bk", x, x, cube))
