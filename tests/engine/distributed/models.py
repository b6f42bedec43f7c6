"""Small models of every style, and data, for the programs that train them on replicas."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

import estimand as est

_v1 = tf.compat.v1
ROWS = 48


def data() -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(ROWS, 3)).astype(np.float32)
    kind = rng.integers(0, 5, size=ROWS)
    y = (x @ np.array([[1.0], [2.0], [-1.0]]) + kind[:, None] * 0.3 > 0.5).astype(np.int64)
    return {"x": x, "kind": kind}, y


def input_fn(batch: int, repeat: bool = True):
    """The first N x B rows are the batches of N replicas, or one batch of a single process."""

    def fn() -> tf.data.Dataset:
        features, labels = data()
        dataset = tf.data.Dataset.from_tensor_slices((features, labels)).batch(batch)
        return dataset.repeat() if repeat else dataset

    return fn


def uneven_input_fn(batch: int):
    """41 batches, told to nobody: 21 for the first of two processes, 20 for the other."""

    def fn() -> tf.data.Dataset:
        dataset = input_fn(batch)().take(41)
        return dataset.filter(lambda features, labels: tf.size(labels) > 0)

    return fn


def v1_model_fn(features, labels, mode):
    w = _v1.get_variable("net/w", [3, 1], initializer=_v1.constant_initializer(0.1))
    b = tf.Variable([0.0], name="b")
    table = _v1.get_variable("table", [5, 1], initializer=_v1.zeros_initializer())
    # As embedding columns do it: how many rows are looked up differs from batch to batch.
    kinds, place = tf.unique(features["kind"])
    logits = features["x"] @ w + b + tf.gather(tf.nn.embedding_lookup(table, kinds), place)
    if mode == est.ModeKeys.PREDICT:
        return est.EstimatorSpec(mode, predictions={"p": tf.sigmoid(logits)})
    loss = _v1.losses.sigmoid_cross_entropy(labels, logits)
    metrics = {
        "accuracy": _v1.metrics.accuracy(labels, tf.cast(logits > 0, tf.int64)),
        "auc": _v1.metrics.auc(labels, tf.sigmoid(logits)),
    }
    step = _v1.train.get_global_step()
    train_op = _v1.train.AdamOptimizer(0.1).minimize(loss, step)
    _v1.summary.scalar("mean_logit", tf.reduce_mean(logits))
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops=metrics)


def sum_model_fn(features, labels, mode):
    w = _v1.get_variable("w", [3, 1], initializer=_v1.constant_initializer(0.1))
    loss = tf.reduce_sum(tf.square(features["x"] @ w - tf.cast(labels, tf.float32)))
    optimizer = _v1.train.GradientDescentOptimizer(0.001)
    train_op = est.minimize(optimizer, loss, loss_reduction="sum")
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def keras_model_fn(features, labels, mode):
    import keras

    training = mode == est.ModeKeys.TRAIN
    hidden = keras.layers.Dense(4, activation="tanh", kernel_initializer="ones")(features["x"])
    dropped = keras.layers.Dropout(0.0)(hidden, training=training)
    logits = keras.layers.Dense(1, kernel_initializer="ones")(dropped)
    if mode == est.ModeKeys.PREDICT:
        return est.EstimatorSpec(mode, predictions={"p": tf.sigmoid(logits)})
    target = tf.cast(labels, tf.float32)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(target, logits))
    metric = keras.metrics.BinaryAccuracy(threshold=0.0)
    metric.update_state(labels, logits)
    train_op = est.minimize(keras.optimizers.Adam(0.05, clipnorm=0.1), loss)
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op, eval_metric_ops={"hits": metric})


def norm_model_fn(features, labels, mode):
    """Batch normalization straight on the features, so that its statistics are known."""
    import keras

    training = mode == est.ModeKeys.TRAIN
    normed = keras.layers.BatchNormalization(momentum=0.5)(features["x"], training=training)
    dropped = keras.layers.Dropout(0.5)(normed, training=training)
    logits = keras.layers.Dense(1)(dropped)
    if mode == est.ModeKeys.PREDICT:
        return est.EstimatorSpec(mode, predictions={"normed": normed})
    loss = tf.reduce_mean(tf.square(logits - tf.cast(labels, tf.float32)))
    train_op = est.minimize(keras.optimizers.SGD(0.0), loss)
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def mask_model_fn(features, labels, mode):
    """The gradient of its variable is the dropout mask, each replica's in a row of its own."""
    import keras

    row = tf.cast(labels[0, 0], tf.int32)  # told by the label, which is the replica's number
    mask = keras.layers.Dropout(0.5)(tf.ones([1, 16]), training=True)
    masks = _v1.get_variable("masks", [2, 16], initializer=_v1.zeros_initializer())
    loss = tf.reduce_sum(mask * tf.gather(masks, [row]))
    optimizer = _v1.train.GradientDescentOptimizer(1.0)
    train_op = est.minimize(optimizer, loss, loss_reduction="sum")
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def printing_model_fn(features, labels, mode):
    del features, labels
    mask = tf.nn.dropout(tf.ones([1, 16]), rate=0.5)
    w = _v1.get_variable("w", [], initializer=_v1.zeros_initializer())
    loss = w * tf.reduce_mean(mask)
    with tf.control_dependencies([tf.print(tf.reduce_sum(mask))]):
        optimizer = _v1.train.GradientDescentOptimizer(0.1)
        train_op = optimizer.minimize(loss, _v1.train.get_global_step())
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def rows_model_fn(features, labels, mode):
    """Tells which rows it was given."""
    del labels
    rows = features["row"]
    _v1.add_to_collection("rows", rows)
    w = _v1.get_variable("w", [], initializer=_v1.zeros_initializer())
    loss = tf.reduce_mean(tf.square(w - tf.cast(rows, tf.float32)))
    train_op = est.minimize(_v1.train.GradientDescentOptimizer(0.01), loss)
    return est.EstimatorSpec(mode, loss=loss, train_op=train_op)


def rows_of_files(pattern: str):
    def fn() -> tf.data.Dataset:
        files = tf.data.Dataset.list_files(pattern, seed=1)
        lines = files.interleave(tf.data.TextLineDataset, cycle_length=2).shuffle(8)
        return lines.map(lambda line: {"row": tf.strings.to_number(line, tf.int64)}).batch(2)

    return fn


def rows_chosen(input_context) -> tf.data.Dataset:
    rows = tf.data.Dataset.range(12)
    rows = rows.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return rows.batch(2).map(lambda row: {"row": row})


def columns():
    kind = tf.feature_column.categorical_column_with_identity("kind", 5)
    return [tf.feature_column.numeric_column("x", shape=3)], kind


def dnn(config):
    numbers, kind = columns()
    embedded = tf.feature_column.embedding_column(kind, 2)
    return est.DNNClassifier([4], [*numbers, embedded], config=config, optimizer="Adam")


def wide_deep(config):
    numbers, kind = columns()
    return est.DNNLinearCombinedClassifier(
        linear_feature_columns=[kind],
        dnn_feature_columns=numbers,
        dnn_hidden_units=[4],
        config=config,
    )


def converted(config):
    import keras

    keras.utils.set_random_seed(5)
    inputs = {"x": keras.Input([3], name="x"), "kind": keras.Input([], dtype="int64", name="kind")}
    embedded = keras.layers.Embedding(5, 2)(inputs["kind"])
    joined = keras.layers.Concatenate()([inputs["x"], embedded])
    outputs = keras.layers.Dense(1, activation="sigmoid", name="p")(joined)
    model = keras.Model(inputs, outputs)
    optimizer = keras.optimizers.SGD(0.5, momentum=0.9)
    model.compile(optimizer, "binary_crossentropy", metrics=["accuracy"])
    return est.keras.model_to_estimator(model, config=config)


ESTIMATORS = {
    "v1": lambda config: est.Estimator(v1_model_fn, config=config),
    "sum": lambda config: est.Estimator(sum_model_fn, config=config),
    "keras": lambda config: est.Estimator(keras_model_fn, config=config),
    "dnn": dnn,
    "wide_deep": wide_deep,
    "converted": converted,
}
# Trained on two replicas of one process; what they leave out trains in several processes.
MIRRORED = ["v1", "sum", "keras", "wide_deep", "converted"]
