"""Programs as they were written for TensorFlow 1."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import estimand as est
from tests.differential.zoo.registry import (
    BATCH,
    CLASSES,
    IDS,
    WIDTH,
    WORDS,
    cross_entropy,
    images,
    program,
    sequences,
    spec,
    trained,
    words,
)  # fmt: skip

v1 = tf.compat.v1
layers = est.compat.v1.layers
Features = dict[str, tf.Tensor]


def dense(x: tf.Tensor, width: int, name: str, **more: Any) -> tf.Tensor:
    with v1.variable_scope(name):
        kernel = v1.get_variable("kernel", [x.shape[-1], width], **more)
        return x @ kernel + v1.get_variable("bias", [width], initializer=v1.zeros_initializer())


def hidden_and_logits(features: Features) -> tuple[tf.Tensor, tf.Tensor]:
    hidden = tf.nn.relu(dense(features["x"], 5, "hidden"))
    return hidden, dense(hidden, CLASSES, "logits")


def network(features: Features) -> tf.Tensor:
    return hidden_and_logits(features)[1]


@program("v1")
def gradient_descent(features: Features, labels: tf.Tensor, mode: str) -> Any:
    return cross_entropy(labels, network(features))


@program("v1")
def adam(features: Features, labels: tf.Tensor, mode: str) -> Any:
    loss = cross_entropy(labels, network(features))
    return trained(loss, v1.train.AdamOptimizer(0.01))


@program("v1")
def momentum_with_nesterov(features: Features, labels: tf.Tensor, mode: str) -> Any:
    loss = cross_entropy(labels, network(features))
    return trained(loss, v1.train.MomentumOptimizer(0.05, 0.9, use_nesterov=True))


@program("v1")
def rmsprop_centered(features: Features, labels: tf.Tensor, mode: str) -> Any:
    loss = cross_entropy(labels, network(features))
    return trained(loss, v1.train.RMSPropOptimizer(0.01, centered=True, momentum=0.5))


@program("v1")
def adagrad_and_ftrl(features: Features, labels: tf.Tensor, mode: str) -> Any:
    """Two optimizers, each with a part of the variables, as wide & deep has them."""
    wide = dense(features["x"], CLASSES, "wide")
    loss = cross_entropy(labels, wide + network(features))
    variables = v1.trainable_variables()
    ours = [v for v in variables if v.op.name.startswith("wide")]
    others = [v for v in variables if not v.op.name.startswith("wide")]
    step = v1.train.get_global_step()
    ftrl = v1.train.FtrlOptimizer(0.05, l1_regularization_strength=0.01)
    ops = [
        ftrl.minimize(loss, var_list=ours),
        v1.train.AdagradOptimizer(0.05).minimize(loss, var_list=others),
    ]
    with tf.control_dependencies(ops):
        return spec(loss, v1.assign_add(step, 1).op)


@program("v1")
def adadelta_with_decay(features: Features, labels: tf.Tensor, mode: str) -> Any:
    loss = cross_entropy(labels, network(features))
    rate = v1.train.exponential_decay(0.5, v1.train.get_global_step(), 3, 0.9, staircase=True)
    v1.summary.scalar("rate", rate)
    return trained(loss, v1.train.AdadeltaOptimizer(rate))


@program("v1")
def piecewise_rate(features: Features, labels: tf.Tensor, mode: str) -> Any:
    """Branches on the step."""
    loss = cross_entropy(labels, network(features))
    step = v1.train.get_global_step()
    rate = v1.train.piecewise_constant(step, [3, 7], [0.1, 0.05, 0.01])
    return trained(loss, v1.train.GradientDescentOptimizer(rate))


@program("v1")
def cosine_and_polynomial_rate(features: Features, labels: tf.Tensor, mode: str) -> Any:
    loss = cross_entropy(labels, network(features))
    step = v1.train.get_global_step()
    rate = v1.train.cosine_decay(0.1, step, 10) + v1.train.polynomial_decay(
        0.05, step, 8, cycle=True
    )
    return trained(loss, v1.train.GradientDescentOptimizer(rate))


@program("v1")
def clipped_by_global_norm(features: Features, labels: tf.Tensor, mode: str) -> Any:
    loss = cross_entropy(labels, network(features))
    optimizer = v1.train.AdamOptimizer(0.02)
    gradients, variables = zip(*optimizer.compute_gradients(loss), strict=True)
    gradients, norm = tf.clip_by_global_norm(gradients, 0.5)
    v1.summary.scalar("norm", norm)
    step = v1.train.get_global_step()
    return spec(loss, optimizer.apply_gradients(zip(gradients, variables, strict=True), step))


@program("v1")
def scaled_image_in_a_summary(features: Features, labels: tf.Tensor, mode: str) -> Any:
    """Two divisions that a graph optimizer would like to make one, unless somebody looks."""
    scaled = features["x"] / 255.0
    v1.summary.histogram("scaled", scaled)
    return cross_entropy(labels, network({"x": scaled / 0.3081}))


@program("v1")
def sums_of_branches_in_a_summary(features: Features, labels: tf.Tensor, mode: str) -> Any:
    branches = [dense(features["x"], CLASSES, f"branch{i}") for i in range(3)]
    partly = branches[0] + branches[1]
    v1.summary.histogram("partly", partly)
    return cross_entropy(labels, partly + branches[2])


@program("v1")
def train_accuracy_in_a_summary(features: Features, labels: tf.Tensor, mode: str) -> Any:
    """The update op of the metric is run by the summary, and by nothing else."""
    logits = network(features)
    accuracy = v1.metrics.accuracy(labels, tf.argmax(logits, axis=1), name="accuracy")
    v1.summary.scalar("train_accuracy", accuracy[1])
    return trained(cross_entropy(labels, logits), eval_metric_ops={"accuracy": accuracy})


@program("v1", random=True)
def dropout_of_v1(features: Features, labels: tf.Tensor, mode: str) -> Any:
    hidden, _ = hidden_and_logits(features)
    return cross_entropy(labels, dense(v1.nn.dropout(hidden, rate=0.4), CLASSES, "out"))


@program("v1", random=True)
def noise_with_seeds_of_ops(features: Features, labels: tf.Tensor, mode: str) -> Any:
    noise = v1.random_normal([BATCH, WIDTH], seed=3) + v1.random_uniform([BATCH, 1], seed=4)
    return cross_entropy(labels, network({"x": features["x"] + 0.1 * noise}))


@program("v1")
def layers_with_batch_normalization(features: Features, labels: tf.Tensor, mode: str) -> Any:
    x = layers.dense(features["x"], 5)
    x = tf.nn.relu(layers.batch_normalization(x, training=True, momentum=0.8))
    loss = cross_entropy(labels, layers.dense(x, CLASSES))
    with tf.control_dependencies(v1.get_collection(v1.GraphKeys.UPDATE_OPS)):
        return trained(loss)


@program("v1", images, tolerance=4)
def layers_of_convolutions(features: Features, labels: tf.Tensor, mode: str) -> Any:
    x = layers.conv2d(features["image"], 4, 3, activation=tf.nn.relu)
    x = layers.max_pooling2d(x, 2, 2)
    return cross_entropy(labels, layers.dense(layers.flatten(x), CLASSES))


@program("v1")
def regularized(features: Features, labels: tf.Tensor, mode: str) -> Any:
    def l2(w: tf.Tensor) -> tf.Tensor:
        return 0.01 * tf.nn.l2_loss(w)

    logits = dense(features["x"], CLASSES, "logits", regularizer=l2)
    return cross_entropy(labels, logits) + v1.losses.get_regularization_loss()


@program("v1")
def partitioned_variables(features: Features, labels: tf.Tensor, mode: str) -> Any:
    parts = v1.fixed_size_partitioner(3)
    with v1.variable_scope("parted", partitioner=parts):
        kernel = v1.get_variable("kernel", [WIDTH, CLASSES])
    logits = features["x"] @ tf.convert_to_tensor(kernel)
    return trained(cross_entropy(labels, logits), v1.train.AdamOptimizer(0.01))


@program("v1")
def variables_made_by_hand(features: Features, labels: tf.Tensor, mode: str) -> Any:
    kernel = v1.Variable(tf.ones([WIDTH, CLASSES]) * 0.1, name="kernel")
    seen = v1.Variable(0, trainable=False, name="seen")
    loss = cross_entropy(labels, features["x"] @ kernel)
    with tf.control_dependencies([v1.assign_add(seen, BATCH)]):
        return trained(loss)


@program("v1")
def embeddings_with_sparse_adam(features: Features, labels: tf.Tensor, mode: str) -> Any:
    """IndexedSlices: rows of ids that come up twice in a batch are added."""
    table = v1.get_variable("table", [IDS, 4])
    loss = cross_entropy(labels, dense(tf.nn.embedding_lookup(table, features["id"]), CLASSES, "o"))
    return trained(loss, v1.train.AdamOptimizer(0.02))


@program("v1")
def embeddings_with_adam_without_momentum(features: Features, labels: tf.Tensor, mode: str) -> Any:
    table = v1.get_variable("table", [IDS, CLASSES])
    scale = 10.0 ** tf.cast(v1.train.get_or_create_global_step() % 3, tf.float32)
    loss = cross_entropy(labels, tf.gather(table, features["id"]) * scale)
    return trained(loss, v1.train.AdamOptimizer(0.05, beta1=0.0, beta2=0.9))


@program("v1")
def frozen_rows_by_short_numbers(features: Features, labels: tf.Tensor, mode: str) -> Any:
    table = v1.get_variable("table", [IDS, CLASSES], trainable=False)
    rows = tf.gather(table.read_value(), tf.cast(features["id"], tf.int16))
    return cross_entropy(labels, rows + network(features))


@program("v1", eager=False)
def quantized_in_a_branch(features: Features, labels: tf.Tensor, mode: str) -> Any:
    step, x = v1.train.get_or_create_global_step(), features["x"]
    quantized = [lambda s=s: tf.quantization.quantize(x * s, -3.0, 3.0, tf.qint8).output
                 for s in (1.0, 0.5)]  # fmt: skip
    x = tf.quantization.dequantize(tf.cond(step % 2 < 1, *quantized), -3.0, 3.0)
    return cross_entropy(labels, network({**features, "x": x}))


@program("v1")
def embeddings_with_sparse_momentum(features: Features, labels: tf.Tensor, mode: str) -> Any:
    table = v1.get_variable("table", [IDS, CLASSES])
    loss = cross_entropy(labels, tf.nn.embedding_lookup(table, features["id"]))
    return trained(loss, v1.train.MomentumOptimizer(0.1, 0.8))


@program("v1", sequences, tolerance=4)
def cell_of_lstm(features: Features, labels: tf.Tensor, mode: str) -> Any:
    cell = est.compat.v1.nn.rnn_cell.BasicLSTMCell(3)
    _, state = est.compat.v1.nn.dynamic_rnn(
        cell, features["x"], sequence_length=features["length"], dtype=tf.float32
    )
    return cross_entropy(labels, dense(state.h, CLASSES, "logits"))


@program("v1")
def average_of_variables(features: Features, labels: tf.Tensor, mode: str) -> Any:
    """Trains the variables, and saves averages; with the Saver that swaps them."""
    loss = cross_entropy(labels, network(features))
    averages = v1.train.ExponentialMovingAverage(0.9, v1.train.get_global_step())
    step = est.minimize(v1.train.GradientDescentOptimizer(0.05), loss)
    with tf.control_dependencies([step]):
        kept = averages.apply(v1.trainable_variables())
    return spec(loss, kept)


@program("v1", eager=False)
def average_of_the_loss(features: Features, labels: tf.Tensor, mode: str) -> Any:
    """Eagerly TensorFlow itself refuses to average what is no variable."""
    loss = cross_entropy(labels, network(features))
    averages = v1.train.ExponentialMovingAverage(0.8)
    with tf.control_dependencies([averages.apply([loss])]):
        v1.summary.scalar("smooth", averages.average(loss))
        return trained(loss)


@program("v1")
def accumulated_gradients(features: Features, labels: tf.Tensor, mode: str) -> Any:
    """Applies the sum of three micro-batches; the global step counts applications."""
    loss = cross_entropy(labels, network(features))
    optimizer, variables = v1.train.AdamOptimizer(0.02), v1.trainable_variables()
    sums = [v1.Variable(tf.zeros(v.shape), trainable=False) for v in variables]
    count = v1.Variable(0, trainable=False, name="count")
    step = v1.train.get_global_step()
    gradients = tf.gradients(loss, variables)
    added = [v1.assign_add(s, g) for s, g in zip(sums, gradients, strict=True)]
    with tf.control_dependencies([*added, v1.assign_add(count, 1)]):
        full = tf.equal(count % 3, 0)

    def apply() -> tf.Tensor:
        held = zip([s.read_value() / 3 for s in sums], variables, strict=True)
        with tf.control_dependencies([optimizer.apply_gradients(held)]):
            empty = [v1.assign(s, tf.zeros_like(s)) for s in sums]
        with tf.control_dependencies(empty):
            return tf.constant(True)

    with tf.control_dependencies([tf.cond(full, apply, lambda: tf.constant(False))]):
        return spec(loss, v1.assign_add(step, 1).op)


@program("v1", words)
def table_from_strings(features: Features, labels: tf.Tensor, mode: str) -> Any:
    filled = tf.lookup.KeyValueTensorInitializer(list(WORDS), list(range(len(WORDS))))
    ids = tf.lookup.StaticHashTable(filled, -1).lookup(features["word"])
    table = v1.get_variable("table", [len(WORDS), CLASSES])
    return cross_entropy(labels, tf.nn.embedding_lookup(table, ids))


@program("v1", words)
def feature_columns(features: Features, labels: tf.Tensor, mode: str) -> Any:
    word = est.feature_column.categorical_column_with_vocabulary_list("word", WORDS)
    columns = [
        est.feature_column.numeric_column("x", WIDTH),
        est.feature_column.embedding_column(word, 3),
    ]
    x = est.feature_column.input_layer(features, columns)
    return trained(cross_entropy(labels, dense(x, CLASSES, "o")), v1.train.AdagradOptimizer(0.1))


@program("v1")
def scaffold_with_init_fn(features: Features, labels: tf.Tensor, mode: str) -> Any:
    loss = cross_entropy(labels, network(features))
    seen = v1.get_local_variable("seen", [], initializer=v1.zeros_initializer())
    v1.summary.scalar("seen", v1.assign_add(seen, 1.0))
    kernel = v1.trainable_variables()[0]
    fill = v1.assign(kernel, tf.ones_like(kernel) * 0.2)
    scaffold = v1.train.Scaffold(init_fn=lambda scaffold, session: session.run(fill))
    return trained(loss, scaffold=scaffold)


@program("v1")
def while_loop_over_rows(features: Features, labels: tf.Tensor, mode: str) -> Any:
    w = v1.get_variable("w", [WIDTH, WIDTH])

    def body(i: tf.Tensor, x: tf.Tensor) -> Any:
        return i + 1, tf.tanh(x @ w)

    _, x = tf.while_loop(lambda i, _: i < 3, body, (0, features["x"]))
    return cross_entropy(labels, dense(x, CLASSES, "logits"))


@program("v1")
def loss_that_is_asserted(features: Features, labels: tf.Tensor, mode: str) -> Any:
    loss = cross_entropy(labels, network(features))
    with tf.control_dependencies([v1.assert_less(loss, 1e3), v1.assert_positive(loss)]):
        return trained(tf.identity(loss))


@program("v1")
def minimize_that_nobody_asked_for(features: Features, labels: tf.Tensor, mode: str) -> Any:
    loss = cross_entropy(labels, network(features))
    v1.train.GradientDescentOptimizer(100.0).minimize(loss)
    return loss


@program("v1")
def minimize_in_a_branch(features: Features, labels: tf.Tensor, mode: str) -> Any:
    """Trains in every second step only."""
    loss = cross_entropy(labels, network(features))
    step = v1.train.get_global_step()
    optimizer = v1.train.GradientDescentOptimizer(0.05)
    pairs = optimizer.compute_gradients(loss)

    def train() -> tf.Tensor:
        with tf.control_dependencies([optimizer.apply_gradients(pairs)]):
            return tf.constant(True)

    branch = tf.cond(tf.equal(step % 2, 0), train, lambda: tf.constant(False))
    with tf.control_dependencies([branch]):
        return spec(loss, v1.assign_add(step, 1).op)


@program("v1", random=True)
def two_players(features: Features, labels: tf.Tensor, mode: str) -> Any:
    """A GAN: a step of the one, then of the other, on losses that read each other's variables."""
    noise = tf.random.normal([BATCH, 2])
    with v1.variable_scope("generator"):
        made = dense(tf.nn.relu(dense(noise, 4, "a")), WIDTH, "b")

    def judged(x: tf.Tensor) -> tf.Tensor:
        with v1.variable_scope("judge", reuse=v1.AUTO_REUSE):
            return dense(tf.nn.relu(dense(x, 4, "a")), 1, "b")

    real, fake = judged(features["x"]), judged(made)
    entropy = v1.losses.sigmoid_cross_entropy
    of_judge = entropy(tf.ones_like(real), real) + entropy(tf.zeros_like(fake), fake)
    of_generator = entropy(tf.ones_like(fake), fake)

    def scope(name: str) -> list[Any]:
        return v1.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES, name)

    first = v1.train.AdamOptimizer(0.01).minimize(of_judge, var_list=scope("judge"))
    with tf.control_dependencies([first]):
        second = v1.train.AdamOptimizer(0.01).minimize(
            of_generator, v1.train.get_global_step(), var_list=scope("generator")
        )
    return spec(of_generator + of_judge, second)


@program("v1", eager=False)
def train_op_of_nested_conditions(features: Features, labels: tf.Tensor, mode: str) -> Any:
    """Waits, skips and trains by the step; what is done is written inside of the branches."""
    step = v1.train.get_global_step()
    done = v1.get_variable("done", [], initializer=v1.zeros_initializer(), trainable=False)
    loss = cross_entropy(labels, dense(features["x"], CLASSES, "out"))
    optimizer = v1.train.MomentumOptimizer(0.1, 0.9)
    pairs = optimizer.compute_gradients(loss)
    count = lambda: tf.group(step.assign_add(1))  # noqa: E731
    train = lambda: tf.group(optimizer.apply_gradients(pairs, step), done.assign_add(1.0))  # noqa: E731
    later = lambda: tf.cond(step % 3 > 0, train, count)  # noqa: E731
    return spec(loss, tf.cond(step > 3, later, lambda: tf.group(count(), done.assign_sub(0.5))))
