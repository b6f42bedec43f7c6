"""A recurrent network of TensorFlow 1, with its loop and a condition, imported and trained on."""

import json
import os
import sys

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()

FOLDER = sys.argv[1]
random = np.random.RandomState(0)
WORDS = random.randint(0, 20, size=(32, 7))
SIZES = random.randint(1, 8, size=32)
Y = (WORDS.sum(1, keepdims=True) / 70).astype("float32")


def pretrain(folder, use_resource):
    with tf.Graph().as_default(), tf.Session() as session:
        words = tf.placeholder(tf.int64, [None, 7], name="words")
        sizes = tf.placeholder(tf.int64, [None], name="sizes")
        training = tf.placeholder_with_default(False, [], name="training")
        with tf.variable_scope("encoder", use_resource=use_resource):
            table = tf.get_variable("table", [20, 4])
            cell = tf.nn.rnn_cell.GRUCell(5)
            embedded = tf.nn.embedding_lookup(table, words)
            outputs, state = tf.nn.dynamic_rnn(cell, embedded, sizes, dtype=tf.float32)
            scale = tf.get_variable("scale", [5])
            seen = tf.get_variable("seen", [], tf.int64, trainable=False)

            def count():
                with tf.control_dependencies(
                    [tf.assign_add(seen, tf.size(sizes, out_type=tf.int64))]
                ):
                    return state * scale

            code = tf.cond(training, count, lambda: tf.identity(state * 2.0))
            tf.identity(code + tf.reduce_mean(outputs, 1), name="code")
        session.run(tf.global_variables_initializer())
        for variable in tf.global_variables():
            values = np.linspace(-0.5, 0.5, int(np.prod(variable.shape.as_list(), dtype=int)))
            session.run(variable.assign(values.reshape(variable.shape).astype(
                variable.dtype.as_numpy_dtype)))  # fmt: skip
        return tf.train.Saver().save(session, os.path.join(folder, "model.ckpt"))


def model_fn(features, labels, mode, params):
    path = params["checkpoint"]
    given = {
        "words:0": features["words"],
        "sizes:0": features["sizes"],
        "training:0": tf.constant(mode == tf.estimator.ModeKeys.TRAIN),
    }
    tf.train.import_meta_graph(path + ".meta", import_scope="before", input_map=given)
    imported = tf.global_variables("before/")
    tf.train.init_from_checkpoint(path, {v.op.name[len("before/") :]: v for v in imported})
    code = tf.get_default_graph().get_tensor_by_name("before/encoder/code:0")
    y = tf.layers.dense(code, 1, kernel_initializer=tf.ones_initializer())
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, {"y": y})
    loss = tf.losses.mean_squared_error(labels, y)
    optimizer = tf.train.AdamOptimizer(0.05)
    train_op = optimizer.minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def input_fn():
    rows = ({"words": WORDS, "sizes": SIZES}, Y)
    return tf.data.Dataset.from_tensor_slices(rows).batch(8).repeat(4)


results = {}
for kind in ("reference", "resource"):
    folder = os.path.join(FOLDER, kind)
    os.makedirs(folder)
    params = {"checkpoint": pretrain(folder, kind == "resource")}
    for _ in range(2):
        model = tf.estimator.Estimator(model_fn, os.path.join(folder, "run"), params=params)
        model.train(input_fn, steps=5)
    results[kind] = {
        "loss": float(model.evaluate(input_fn)["loss"]),
        "predictions": [float(row["y"][0]) for row in model.predict(input_fn)][:3],
        "variables": {
            name: np.ravel(model.get_variable_value(name))[:4].tolist()
            for name in model.get_variable_names()
            if "Adam" not in name
        },
    }
print(json.dumps(results))
